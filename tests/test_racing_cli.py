"""The verb that lists tracks."""

import pytest
from PIL import Image

from tutelage.cli import main
from tutelage.domains import racing
from tutelage.domains.racing.suite import RELEASED_FRAMES


@pytest.mark.slow
def test_levels_lists_and_draws_every_track(tmp_path, capsys):
    out = tmp_path / "racing.png"
    main(["levels", "--domain", "racing", "--out", str(out)])
    header, *rows, _, last = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["level", "suites", "tiles"]
    rows = [row.replace(", ", ",") for row in rows]
    suites = racing.domain().suites
    released = sorted(RELEASED_FRAMES)
    shown = [[entry.name, "f1" if entry.name in released else "f1,f1-released"] for entry in suites["f1"]]
    shown += [[name, "f1-released"] for name in released]
    shown += [[entry.name, suite] for suite in ("bezier", "original") for entry in suites[suite]]
    assert [row.split()[:2] for row in rows] == shown
    monaco = next(row.split() for row in rows if "Monaco" in row)
    assert monaco[2] == "5000"
    assert monaco[-2:] == ["1500", "frames"]
    assert str(out) in last
    with Image.open(out) as picture:
        assert min(picture.size) > 1000
