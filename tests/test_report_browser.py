"""The report in a real browser: all pictures load, nothing is fetched, nothing complains, nothing is cut off."""

import chromium
import pytest
from made_up_curricula import complete_run, hostile_run
from made_up_runs import write_run

from tutelage.analysis.report import report

pytestmark = pytest.mark.skipif(
    chromium.PROGRAM is None, reason="No Chromium here: install the package chromium to test the report in a browser."
)

STICKING_OUT = """
[...document.querySelectorAll("body *")]
  .filter(e => !e.closest("svg") && !e.closest(".scrolls, .tiles, .plot"))
  .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(e => e.outerHTML.slice(0, 80))
"""

CUT_OFF = """
[...document.querySelectorAll(".plot, .plot svg, .scrolls")]
  .filter(e => e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > innerWidth)
  .map(e => e.outerHTML.slice(0, 80))
"""
"""Figures and tables that a reader would have to scroll sideways."""

WITHOUT_PIXELS = "[...document.images].filter(image => !(image.complete && image.naturalWidth > 0)).length"


@pytest.fixture(scope="module")
def browser():
    with chromium.browser() as tab:
        yield tab


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    directory = tmp_path_factory.mktemp("page")
    runs = [complete_run(directory / "accel", "accel"), write_run(directory / "dr", "dr")]
    return report(runs, directory / "report.html").as_uri()


def test_faults_are_noticed(browser, tmp_path):
    """The checks below would find these."""
    faulty = tmp_path / "faulty.html"
    faulty.write_text(
        "<!doctype html><body style='margin: 0'><img src='data:image/png;base64,xxxx'><img src='missing.png'>"
        "<p style='width: 3000px'>wide</p><div class='plot' style='overflow: auto; width: 99px'>"
        "<p style='width: 999px'>cut off</p></div><script>console.error('oh')</script>"
    )
    browser.show(faulty.as_uri(), 400)
    assert browser.evaluate(WITHOUT_PIXELS) == 2
    assert len(browser.evaluate(STICKING_OUT)) == 1
    assert len(browser.evaluate(CUT_OFF)) == 1
    assert len(browser.complaints) >= 2
    assert any(address.endswith("missing.png") for address in browser.requests)


@pytest.mark.parametrize("width", [400, 1200])
def test_is_whole_and_keeps_to_its_window(browser, page, width):
    browser.show(page, width)
    assert browser.evaluate("document.images.length") > 10
    assert browser.evaluate(WITHOUT_PIXELS) == 0
    assert browser.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.evaluate("innerWidth") == width
    assert browser.evaluate(STICKING_OUT) == []
    assert browser.evaluate(CUT_OFF) == []
    assert browser.complaints == []
    assert [address for address in browser.requests if not address.startswith("data:")] == [page]


def test_contents_lead_to_their_sections(browser, page):
    browser.show(page, 1200)
    lost = "[...document.querySelectorAll('nav a')].filter(a => !document.querySelector(a.getAttribute('href'))).length"
    assert browser.evaluate("document.querySelectorAll('nav a').length") > 5
    assert browser.evaluate(lost) == 0
    browser.evaluate("document.querySelector('nav a[href=\"#configuration\"]').click()")
    assert browser.evaluate("location.hash") == "#configuration"


def test_figures_are_drawn(browser, page):
    """Inline SVG has a size, and what it refers to is there."""
    browser.show(page, 1200)
    sizes = browser.evaluate(
        "[...document.querySelectorAll('.wide svg')].map(s => s.getBoundingClientRect()).map(r => [r.width, r.height])"
    )
    assert len(sizes) >= 4
    assert all(width > 300 and height > 100 for width, height in sizes)
    dangling = "[...document.querySelectorAll('use')].filter(u => !document.querySelector(u.href.baseVal)).length"
    assert browser.evaluate("document.querySelectorAll('use').length") > 100
    assert browser.evaluate(dangling) == 0


def test_light_and_dark(browser, page):
    luminance = """
        getComputedStyle(document.{}).{}.match(/[0-9]+/g).slice(0, 3).reduce((sum, x) => sum + Number(x), 0) / 765
    """
    for scheme, paper_is_light in (("light", True), ("dark", False)):
        browser.show(page, 1200, scheme=scheme)
        paper = browser.evaluate(luminance.format("body", "backgroundColor"))
        ink = browser.evaluate(luminance.format("body", "color"))
        drawn = browser.evaluate(luminance.format("querySelector('.plot svg use')", "fill"))
        assert (paper > ink) == paper_is_light
        assert abs(paper - ink) > 0.6
        assert abs(paper - drawn) > 0.6, "letters of figures cannot be read"


def test_hostile_strings_do_nothing(browser, tmp_path):
    browser.show(report([hostile_run(tmp_path / "run")], tmp_path / "report.html").as_uri(), 400)
    assert browser.complaints == []
    assert browser.evaluate("document.scripts.length") == 0
    assert browser.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
