"""What the README shows, works."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def python_blocks():
    """The README's programs; its sketch of the contracts is not one."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return [block for block in blocks if "import" in block]


@pytest.mark.slow
def test_its_programs_run():
    program = "\n".join(python_blocks())
    assert "range(200)" in program
    program = program.replace("range(200)", "range(2)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "new/solved" in done.stdout


def test_its_files_exist():
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert all((README.parent / link).exists() for link in links)
