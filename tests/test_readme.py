"""The commands and programs of README and of the guide to getting started work, one after the other."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/getting_started.md"))

SMALLER = {"train": ["--preset", "tiny", "--total-steps", "2560"], "eval": ["--episodes", "1"]}
"""What is added to a command so that it takes seconds; the last value of an option counts."""


SAME = {"runs/maze": "runs/first"}
"""The run of the README is the guide's by another name, so its commands are run once."""


def commands():
    """Every `tutelage` command, in order, made smaller; the help text has tests of its own."""
    blocks = "".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL))
    found = re.findall(r"^tutelage +([^#\n]+)", blocks, re.MULTILINE) + re.findall(r"`tutelage\s+([^`]+)`", TEXT)
    out = []
    for arguments in map(shlex.split, found):
        if "--help" not in arguments:
            smaller = [] if "--config" in arguments else SMALLER.get(arguments[0], [])
            out.append([*arguments, *smaller])
    return out


def distinct(commands):
    """Those that are no repetition; the pictures of all levels have tests of their own."""
    named = [tuple(SAME.get(word, word) for word in words) for words in commands if words[0] != "levels"]
    return [list(words) for words in dict.fromkeys(named)]


def quickstart():
    """The commands of `make quickstart`, made smaller."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("quickstart:")[2].partition("\n\n")[0]
    found = [shlex.split(line) for line in re.findall(r"/tutelage (.+)", recipe)]
    return [[*arguments, *SMALLER.get(arguments[0], [])] for arguments in found]


def programs():
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    smaller = "PPO(learning_rate=1e-3), num_envs=2, num_steps=32"
    return [block.replace("range(200)", "range(2)").replace("PPO(learning_rate=1e-3)", smaller) for block in blocks]


def run(program, directory):
    done = subprocess.run([sys.executable, "-c", program], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{program}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.slow
def test_a_newcomer_can_follow_it(tmp_path):
    verbs = {arguments[0] for arguments in commands()}
    assert {"train", "resume", "eval", "play", "report", "compare", "levels", "game"} <= verbs
    assert [arguments[0] for arguments in quickstart()] == ["train", "eval", "report"]
    lines = [f"print({' '.join(c)!r}, flush=True); main({c!r})" for c in quickstart() + distinct(commands())]
    run("\n".join(["from tutelage.cli import main", *lines]), tmp_path)
    for file in (
        "first/report.html",
        "labyrinth.gif",
        "first/eval-paper.csv",
        "pair-compared/compare.csv",
        "pair.html",
    ):
        assert (tmp_path / "runs" / file).stat().st_size > 0
    assert (tmp_path / "artefacts/quickstart/report.html").stat().st_size > 0
    said = [run(program, tmp_path) for program in programs()]  # each stands alone
    assert any("new/solved" in each for each in said)
