"""Everything that knows a particular paper: published numbers, its tables, figures, verdicts, and their runs.

Nothing outside imports this package: its commands and its part of the report register in `commands`.
"""
