"""One run or several as a single HTML page that opens anywhere: no network, no script, no other file.

`page` makes the file out of sections, `sections` holds those with tables and figures, `levels` those with pictures.
Curves and tests show all runs; levels and videos show one run for each method, its `Example`.
"""

from tutelage.analysis.report.page import report

__all__ = ["report"]
