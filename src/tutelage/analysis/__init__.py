"""Analysis: results read from runs, statistics, figures and the report."""
