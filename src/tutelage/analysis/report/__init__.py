"""One run or many as a single HTML page that opens anywhere: no network, no script, no other file.

`page` says which sections there are. Each is a function of runs that returns `blocks`: overview, testing, training,
levels (with their ancestry), videos, calibration, configuration. `page.html` and `page.css` know how a block looks.
Curves and tests are of all runs; levels and videos are of one run for each method, its `example`.
"""

from tutelage.analysis.report.page import report

__all__ = ["report"]
