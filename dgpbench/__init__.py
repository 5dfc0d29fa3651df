"""dgpbench: fair, fast, repeatable comparisons of deep Gaussian processes."""

__version__ = "0.1.0"
