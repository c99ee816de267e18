"""The documentation: links lead somewhere, examples are true, commands exist, and the pages name what is there."""

import doctest
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tutelage import METHODS, cli
from tutelage.curriculum import methods

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
NAMES = [str(page.relative_to(ROOT)) for page in (*PAGES, *TOP)]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name, language):
    return re.findall(rf"```{language}\n(.*?)```", text_of(name), re.DOTALL)


def commands(name):
    """What a page's shell blocks tell `tutelage` to do."""
    found = re.findall(r"^tutelage +([^#\n]+)", "".join(blocks(name, "sh")), re.MULTILINE)
    return [shlex.split(command) for command in found]


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    links = re.findall(r"\]\(([^)]+)\)", text_of(name))
    for path, _, anchor in (link.partition("#") for link in links if "://" not in link):
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ +(.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w]+", "-", heading.lower()).strip("-") for heading in headings], anchor


@pytest.mark.parametrize("name", [name for name in NAMES if blocks(name, "pycon")])
def test_examples_are_true(name):
    failed, tried = doctest.testfile(str(ROOT / name), module_relative=False, encoding="utf-8")
    assert tried
    assert not failed


def test_every_page_is_in_the_navigation():
    navigation = re.findall(r"[\w/]+\.md", text_of("mkdocs.yml"))
    assert sorted(navigation) == [str(page.relative_to(ROOT / "docs")) for page in PAGES]


def test_the_reference_names_what_exists():
    names = re.findall(r"^::: ([\w.]+)", text_of("docs/api.md"), re.MULTILINE)
    assert names
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), name


@pytest.mark.parametrize("name", [name for name in NAMES if commands(name)])
def test_commands_can_be_read(name, monkeypatch, tmp_path):
    """Each option exists. Programs of the page and the examples lie where the commands look for them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    (tmp_path / "mine.py").write_text(module_of_mine(), encoding="utf-8")
    for arguments in commands(name):
        if "--config" not in arguments:  # that file is another run's
            cli._parse(arguments)


@pytest.mark.parametrize("name", METHODS)
def test_the_page_of_a_method_shows_its_record_and_its_command(name):
    page = f"docs/methods/{name.replace('-', '_')}.md"
    (record,) = blocks(page, "python")
    namespace = dict(vars(methods))
    exec(record, namespace)
    assert namespace[record.partition(" ")[0]] == METHODS[name]
    assert ["train", name] in [arguments[:2] for arguments in commands(page)]


def module_of_mine():
    """The module that the page about own methods shows."""
    (module,) = [block for block in blocks("docs/own_method.md", "python") if block.startswith("# mine.py")]
    return module


@pytest.mark.slow
def test_a_method_of_your_own(tmp_path):
    """The page's module and its programs work together, and from the command line."""
    (tmp_path / "mine.py").write_text(module_of_mine(), encoding="utf-8")
    lines = ["from tutelage.cli import main"]
    lines += [f"main({arguments!r})" for arguments in commands("docs/own_method.md") if "mine" in " ".join(arguments)]
    lines += [f"main({['train', 'minimax', '--preset', 'tiny', '--utility', 'mine:utility', '--out', 'runs/half']!r})"]
    programs = [block for block in blocks("docs/own_method.md", "python") if not block.startswith("# mine.py")]
    for program in ("\n".join(lines), *programs):
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{program}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert (tmp_path / "runs/mine/report.html").stat().st_size > 0
    assert "mine:Solvable" in (tmp_path / "runs/solvable/config.json").read_text(encoding="utf-8")
