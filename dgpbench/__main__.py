"""`python -m dgpbench`: the command without an installation."""

import os
import sys

# `-m` puts the current folder first: a user's random.py must not hide Python's own.
if sys.path and sys.path[0] in ("", os.getcwd()):
    sys.path.append(sys.path.pop(0))

from dgpbench.cli import entry  # noqa: E402

if __name__ == "__main__":
    entry()
