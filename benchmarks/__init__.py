"""Measurements of dgpbench and of other libraries, run from a clone: `python -m benchmarks.NAME`."""
