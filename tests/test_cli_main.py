"""The command line as a whole: what it costs to ask for help, its version, and what it says of a mistyped word."""

import subprocess
import sys
from pathlib import Path

import pytest

from tutelage.cli import VERBS, main

HEAVY = ("jax", "matplotlib", "scipy", "tyro", "rich", "PIL")


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("code", ["import tutelage", "from tutelage.cli import main; main(['--help'])"])
def test_nothing_heavy_is_loaded_before_it_is_needed(code):
    asked = python("-c", f"{code}\nimport sys; print([name for name in {HEAVY} if name in sys.modules])")
    assert asked.stdout.splitlines()[-1] == "[]", asked.stderr


def test_all_names_are_there():
    import tutelage

    assert all(getattr(tutelage, name) is not None for name in tutelage.__all__)
    assert {name for names in tutelage._HOMES.values() for name in names} == {*tutelage.__all__}
    assert {*tutelage.__all__} <= {*dir(tutelage)}
    # what type checkers read is what programs get
    source = Path(tutelage.__file__).read_text().partition("if TYPE_CHECKING:")[2].partition("__version__")[0]
    expected = [f"from {home} import {name} as {name}" for home, names in tutelage._HOMES.items() for name in names]
    assert sorted(source.strip().split("\n    ")) == sorted(expected)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = tutelage.nonsense


def test_help_lists_every_verb_with_a_line(capsys):
    main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    for verb, (_, _, about) in VERBS.items():
        assert any(line.split() == [verb, *about.split()] for line in lines)
    assert max(map(len, lines)) <= 90


def test_version_and_module():
    told = python("-m", "tutelage", "--version")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("tutelage 0.")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trian"], "There is no verb 'trian'. Did you mean train? The verbs are: train, resume,"),
        (["evaluate"], "Did you mean eval?"),
        (["--verson"], "There is no option '--verson'."),
        (["xyz"], "There is no verb 'xyz'. The verbs are:"),
    ],
)
def test_mistyped_verbs(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err


def test_mistyped_options(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["eval", "run", "--episods", "3"])
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert "Perhaps you meant" in said
    assert "--episodes" in said


@pytest.mark.slow
def test_completion(tmp_path):
    file = tmp_path / "completion"
    made = python("-m", "tutelage", "--tyro-write-completion", "bash", str(file))
    assert made.returncode == 0, made.stderr
    assert all(verb in file.read_text() for verb in VERBS)


def test_faults_of_the_program_stay_tracebacks(monkeypatch):
    from tutelage.cli.report import Report

    monkeypatch.setattr(Report, "run", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["report", "run"])
