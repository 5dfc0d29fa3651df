"""`python -m dgpbench`: the command without an installation."""

from dgpbench.cli import entry

if __name__ == "__main__":
    entry()
