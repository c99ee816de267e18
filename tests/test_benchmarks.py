"""The verbs that measure training and racing, and show tracks."""

import json
import subprocess
import sys

import pytest
from benchmarks.__main__ import EnvSpeed, Overhead, main
from benchmarks.commits import Commits, Ratio
from benchmarks.scaling import Scaling


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--repeats", "0"],
        ["train", "--num-envs", "0"],
        ["racing", "--levels", "0"],
        ["racing", "--levels", "3"],
        ["commits", "--old", "HEAD", "--turns", "1"],
        ["commits", "--old", "no-such-commit"],
    ],
)
def test_nonsense_gets_one_sentence(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit, match=r"^benchmarks: "):
        main()


def test_a_difference_counts_if_it_is_larger_than_the_noise():
    ratio = Ratio.of([1.0, 2.0, 4.0], [2.0, 4.0, 8.0])
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))
    assert ratio.verdict == "slower"
    # log ratios −log 2, 0, log 2: mean 0, standard error log 2 / √3, and t = 4.3027 with two degrees of freedom
    ratio = Ratio.of([2.0, 2.0, 2.0], [1.0, 2.0, 4.0])
    assert ratio.high == pytest.approx(2 ** (4.3027 / 3**0.5), rel=1e-3)
    assert ratio.low == pytest.approx(1 / ratio.high)
    assert ratio.verdict == "no difference beyond noise"


@pytest.mark.slow
def test_what_was_measured_is_kept_with_its_conditions(tmp_path, capsys):
    EnvSpeed(levels=(2, 3), steps=5, view=3, out=tmp_path).run()
    record = json.loads((tmp_path / "EnvSpeed.json").read_text())
    (rows,) = record["tables"].values()
    expected = [("tutelage", 2), ("tutelage", 2), ("tutelage", 3), ("tutelage", 3), ("minigrid", 1)]
    assert [(row["env"], row["levels"]) for row in rows] == expected
    assert [row["after an episode"] for row in rows] == [*["same level", "fresh level"] * 2, "same level"]
    assert all(row["see-through"] > 0 and row["occluded"] > 0 for row in rows)
    assert record["options"] == {"levels": [2, 3], "steps": 5, "view": 3}
    assert {"processor", "cores", "load", "python", "jax", "tutelage"} <= record["conditions"].keys()
    assert "| tutelage | 3 | fresh level |" in (tmp_path / "EnvSpeed.md").read_text()
    assert "Maze steps a second" in capsys.readouterr().out


@pytest.mark.nightly
def test_the_cost_of_a_run_beside_its_iterations():
    (rows,) = Overhead(options="dr --preset tiny").measure().values()
    cold, warm = rows
    for row in rows:
        assert 0 < row["first iteration ends, s"] < row["whole run, s"]
        assert 0 < row["iterations, s"] < row["whole run, s"]
    assert warm["whole run, s"] < cold["whole run, s"]


@pytest.mark.nightly
def test_two_commits_are_compared(capsys):
    options = ("plr-perp", "--preset", "tiny", "--total-steps", "2560")
    Commits(old="HEAD", new="HEAD", options=options, turns=2).run()
    printed = capsys.readouterr().out
    assert "turn 2 of 2" in printed
    assert [line.split()[0] for line in printed.splitlines()[-3:]] == ["iterations", "processor", "start"]


@pytest.mark.slow
def test_training_is_measured_beside_the_roofline():
    program = "from benchmarks.__main__ import main; main()"
    arguments = [
        "train",
        "--methods",
        "plr-perp",
        "--no-plain",
        "--num-envs",
        "2",
        "--num-steps",
        "8",
        "--repeats",
        "1",
    ]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for word in ("dr", "plr-perp", "roofline", "curator"):
        assert word in done.stdout


@pytest.mark.nightly
def test_how_cost_grows_is_measured_and_drawn(tmp_path):
    small = {"capacities": (64, 128), "batches": (4,), "devices": (1,), "hidden": (16, 32), "students": (1,)}
    Scaling(**small, num_envs=(8, 16), num_steps=(16,), repeats=1, out=tmp_path).run()
    tables = json.loads((tmp_path / "Scaling.json").read_text())["tables"]
    assert [row["K"] for row in tables["The curator"]] == [64, 128]
    assert [row["hidden"] for row in tables["An iteration by hidden"]] == [16, 32]
    assert all(row["exploit, s"] > 0 and row["memory, MB"] > 0 for row in tables["An iteration by num_envs"])
    assert (tmp_path / "Scaling.png").read_bytes().startswith(b"\x89PNG")
