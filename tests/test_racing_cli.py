"""The verb that lists tracks."""

import pytest
from PIL import Image

from tutelage.cli import main
from tutelage.domains import racing


@pytest.mark.slow
def test_levels_lists_and_draws_every_track(tmp_path, capsys):
    out = tmp_path / "racing.png"
    main(["levels", "--domain", "racing", "--out", str(out)])
    header, *rows, _, last = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["level", "suite", "tiles"]
    suites = racing.domain().suites
    shown = [[entry.name, suite] for suite in ("f1", "bezier", "original") for entry in suites[suite]]
    assert [row.split()[:2] for row in rows] == shown
    monaco = next(row.split() for row in rows if "Monaco" in row)
    assert monaco[2] == "5000"
    assert monaco[-2:] == ["1500", "frames"]
    assert str(out) in last
    with Image.open(out) as picture:
        assert min(picture.size) > 1000
