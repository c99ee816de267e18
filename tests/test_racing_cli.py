"""The verb that lists tracks."""

import pytest
from PIL import Image

from tutelage.cli import main
from tutelage.domains import racing


@pytest.mark.slow
def test_levels_lists_and_draws_every_track(tmp_path, capsys):
    out = tmp_path / "racing.png"
    main(["levels", "racing", "--out", str(out)])
    header, *rows, last = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["level", "tiles"]
    names = [entry.name for suite in racing.domain().suites.values() for entry in suite]
    assert [row.split()[0] for row in rows] == names
    assert next(row for row in rows if row.startswith("Monaco")).split()[1] == "5000"
    assert str(out) in last
    with Image.open(out) as picture:
        assert min(picture.size) > 1000
