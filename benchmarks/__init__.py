"""How fast the library is, beside others where there are any: `python -m benchmarks --help`."""
