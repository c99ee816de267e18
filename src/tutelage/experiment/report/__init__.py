"""One run or many as a single HTML page that opens anywhere: no network, no script, no other file.

    page            which sections there are, and the file
    overview, testing, training, levels, films, calibration, configuration
                    the sections: functions of runs
    example         one run of a method, which stands for its seeds
    ancestry        from high scores back to the levels they were edited from
    blocks          what sections are made of; page.html knows how each looks
    inline, pictures    figures and levels as parts of the page
"""

from tutelage.experiment.report.page import report

__all__ = ["report"]
