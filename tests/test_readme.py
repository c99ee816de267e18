"""What the README shows, works: its commands and its programs, one after the other as a newcomer would."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")

SMALLER = {"train": ["--preset", "tiny"], "eval": ["--episodes", "1"]}
"""What is added to a command so that it takes seconds; the last word on an option counts."""

ELSEWHERE = ("bench", "--help")
"""Have tests of their own: test_cli_bench.py, test_cli_train.py."""


def commands():
    """Every `tutelage` command of the README, in its order, made smaller."""
    blocks = "".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL))
    found = re.findall(r"^tutelage +([^#\n]+)", blocks, re.MULTILINE) + re.findall(r"`tutelage\s+([^`]+)`", TEXT)
    out = []
    for arguments in map(shlex.split, found):
        if not {*ELSEWHERE} & {*arguments}:
            smaller = [] if "--config" in arguments else SMALLER.get(arguments[0], [])
            out.append([*arguments, *smaller])
    return out


def quickstart():
    """The commands of `make quickstart`, made smaller."""
    recipe = (README.parent / "Makefile").read_text(encoding="utf-8").partition("quickstart:")[2].partition("\n\n")[0]
    found = [shlex.split(line) for line in re.findall(r"/tutelage (.+)", recipe)]
    return [[*arguments, *SMALLER.get(arguments[0], [])] for arguments in found]


def programs():
    """The README's programs; its sketch of the contracts is not one."""
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    return [block.replace("range(200)", "range(2)") for block in blocks if "import" in block]


def run(program, directory):
    done = subprocess.run([sys.executable, "-c", program], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{program}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.slow
def test_a_newcomer_can_follow_it(tmp_path):
    (tmp_path / "FILE.csv").write_text("1,0\n0,1\n")
    verbs = {arguments[0] for arguments in commands()}
    assert {"train", "resume", "eval", "play", "report", "compare", "levels", "game"} <= verbs
    assert [arguments[0] for arguments in quickstart()] == ["train", "eval", "report"]
    lines = [f"print({' '.join(c)!r}, flush=True); main({c!r})" for c in quickstart() + commands()]
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


def test_its_files_exist():
    links = re.findall(r"\]\(([^)#:]+)\)", TEXT)
    assert links
    assert all((README.parent / link).exists() for link in links)
