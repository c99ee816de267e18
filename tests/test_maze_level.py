"""Levels as text, as JSON and as picture files."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tutelage.domains.maze.design import MazeDesign
from tutelage.domains.maze.env import MazeEnv, State, wall_at
from tutelage.domains.maze.image import draw
from tutelage.domains.maze.level import parse, show, valid
from tutelage.evaluation.images import gif, png, sheet
from tutelage.types import InputError

SMALL = """
    #####
    #A.G#
    #####
"""


def _same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_parse_reads_rows_from_the_top():
    level = parse(SMALL)
    assert level.walls.shape == (5, 5)
    assert level.agent.tolist() == [1, 1]
    assert level.goal.tolist() == [1, 3]
    assert int(level.direction) == 0
    assert np.argwhere(~np.asarray(level.walls)).tolist() == [[1, 1], [1, 2], [1, 3]]
    assert bool(valid(level))


def test_a_smaller_maze_is_surrounded_by_wall():
    level = parse(SMALL, size=8)
    assert level.walls.shape == (8, 8)
    assert int((~level.walls).sum()) == 3


@pytest.mark.parametrize(("character", "direction"), [("A", 0), (">", 0), ("v", 1), ("<", 2), ("^", 3)])
def test_every_heading_has_its_character(character, direction):
    level = parse(SMALL.replace("A", character))
    assert int(level.direction) == direction
    assert show(level).splitlines()[1][1] == character.replace(">", "A")


def test_text_and_json_lose_nothing():
    design = MazeDesign(size=9, blocks=20)
    for key in jax.random.split(jax.random.key(0), 20):
        level = design.sample(key)
        assert _same(parse(show(level)), level)
        assert _same(design.from_json(json.loads(json.dumps(design.to_json(level)))), level)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("#####\n#A.G#\n####", "Row 3 of the maze has 4 cells"),
        ("#####\n#A..#\n#####", "no goal"),
        ("#####\n#GAG#\n#####", "2 goal"),
        ("#####\n#G..#\n#####", "no agent"),
        ("######\n#A^.G#\n######", "2 agent"),
        ("#####\n#AxG#\n#####", "unknown character 'x'"),
        ("#####\n#A.G.\n#####", "open at its border"),
        ("#" * 9 + "\n#A....G.#\n" + "#" * 9, "too large for a grid of 8 × 8"),
    ],
)
def test_malformed_text_gets_a_clear_error(text, complaint):
    with pytest.raises(InputError, match=complaint):
        parse(text, size=8)


def test_a_huge_drawing_is_refused_before_its_grid_is_made():
    row = "#" * 10**6  # a square of that side would take a terabyte
    with pytest.raises(InputError, match="too large for a grid of 255 × 255"):
        parse(f"{row}\n#AG{row[3:]}\n{row}")


BROKEN_ROWS = st.lists(st.text("#.GA>v<^ \n", max_size=8), max_size=8)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
)


DESIGN = MazeDesign(size=8, blocks=0)


def _read_or_complaint(value):
    try:
        return DESIGN.from_json(value), ""
    except InputError as error:
        return None, str(error)


def _check_read(value):
    """What is read is a valid level; all else gets a sentence."""
    level, complaint = _read_or_complaint(value)
    if level is None:
        assert complaint.endswith(".")
    else:
        assert bool(valid(level))
        assert _same(DESIGN.from_json(DESIGN.to_json(level)), level)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(value=BROKEN_ROWS | ANYTHING)
def test_anything_in_json_is_a_valid_level_or_refused(value):
    _check_read(value)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_drawing_with_a_few_changed_cells_is_a_valid_level_or_refused(data):
    cells = list("######\n#A.#G#\n#.#..#\n#...##\n######")
    for _ in range(data.draw(st.integers(0, 4))):
        cells[data.draw(st.integers(0, len(cells) - 1))] = data.draw(st.sampled_from("#.GAv<^x\n"))
    _check_read("".join(cells).split("\n"))


@pytest.mark.parametrize("value", [None, "#####", {"maze": []}, [1, 2], [["#"]]])
def test_malformed_json_gets_a_clear_error(value):
    with pytest.raises(InputError, match="list of strings"):
        DESIGN.from_json(value)


@pytest.mark.parametrize(
    "change",
    [
        {"agent": jnp.int32([1, 3])},
        {"agent": jnp.int32([0, 0])},
        {"goal": jnp.int32([1, 7])},
        {"goal": jnp.int32([-4, 1])},
        {"direction": jnp.int32(4)},
        {"walls": jnp.zeros((5, 5), bool)},
    ],
)
def test_invalid_levels_are_recognized(change):
    assert not bool(valid(parse(SMALL)._replace(**change)))


def test_pictures_show_every_cell():
    level = parse(SMALL)
    picture = np.asarray(draw(level, pixels=9))
    assert picture.shape == (45, 45, 3)
    assert picture.dtype == np.uint8
    middles = picture[4::9, 4::9]
    colors = {tuple(middles[row, column]) for row, column in [(0, 0), (1, 1), (1, 2), (1, 3)]}
    assert len(colors) == 4, "wall, agent, floor and goal should differ"


def test_picture_files_are_whole_and_leave_nothing_behind(tmp_path):
    frames = [draw(parse(SMALL.replace("A", arrow))) for arrow in ">v<^"]
    gif(tmp_path / "episode.gif", frames)
    png(tmp_path / "new" / "sheet.png", sheet(frames, titles="abcd"))
    with Image.open(tmp_path / "episode.gif") as video:
        assert video.n_frames == 4
    with Image.open(tmp_path / "new" / "sheet.png") as picture:
        assert picture.size == (2 * 80 + 3 * 16, 2 * 80 + 3 * 16)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["episode.gif", "new", "sheet.png"]


def test_walls_at_the_agents_hands():
    level = parse("#####\n#>..#\n#.#.#\n#..G#\n#####")
    scene = MazeEnv().load(level)

    def hands(row: int, column: int, direction: int) -> tuple[float, float]:
        state = State(jnp.array([row, column]), jnp.int32(direction), jnp.int32(0))
        return float(wall_at(1, MazeEnv(), scene, state)), float(wall_at(-1, MazeEnv(), scene, state))

    assert hands(1, 1, 0) == (0, 1)  # faces east in the upper left corner: the border is at its left hand
    assert hands(1, 2, 0) == (1, 1)  # the block is below it
    assert hands(1, 1, 3) == (0, 1)
    assert hands(1, 1, 2) == (1, 0)
