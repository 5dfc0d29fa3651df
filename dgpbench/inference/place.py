"""Where a method of the user's stands, for messages about what went wrong in it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any


def place_of(thing: Any, method: str = "terms") -> str:
    """`; see MyBound.terms (mine.py, line 12)` for a class that is not of this package; else nothing."""
    kind = type(thing)
    if kind.__module__.split(".")[0] == "dgpbench":
        return ""
    function = getattr(kind, method)
    code = inspect.unwrap(function).__code__
    return f"; see {kind.__name__}.{method} ({Path(code.co_filename).name}, line {code.co_firstlineno})"
