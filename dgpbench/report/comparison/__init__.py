"""Comparisons from plain runs: the question, its cells, what is fair, and the table in every format."""
