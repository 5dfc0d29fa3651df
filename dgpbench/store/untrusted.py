"""Files that anyone may have written: regular, of bounded size, with strict JSON in them, or a ValueError."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

MAX_BYTES = 64 << 20  # of a record, a plan or a lease
MAX_FILE = 2 << 30  # of a file beside a record
MAX_DEPTH = 32  # of lists and mappings in one another
MAX_DIGITS = 18  # of a whole number: below 2^63

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_regular(path: str | Path) -> int:
    """A descriptor of a regular file. A link is not followed, a FIFO not waited for."""
    try:
        handle = os.open(path, _OPEN)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise ValueError("it is a symbolic link, not a file") from None
        if error.errno == errno.ENXIO:
            raise ValueError("it is no regular file") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is no regular file")
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_regular(path: str | Path, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file; ValueError if it is none, or larger than `limit`."""
    with os.fdopen(open_regular(path), "rb") as file:
        large = os.fstat(file.fileno()).st_size > limit
        content = b"" if large else file.read(limit + 1)
    if large or len(content) > limit:
        raise ValueError(f"it is larger than {limit / 1e6:,.0f} MB")
    return content


def parse_json(content: bytes) -> Any:
    """The value of a JSON text. ValueError for what JSON does not know (NaN, infinity), for numbers that
    overflow, for a name that stands twice, and for text that is no Unicode."""
    try:
        value = json.loads(
            content.decode("utf-8"),
            parse_float=_real,
            parse_int=_whole,
            parse_constant=_no_number,
            object_pairs_hook=_once,
        )
        if b"\\u" in content:  # half of a surrogate pair has no encoding, and could never be printed
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise ValueError(f"it is no text in UTF-8 ({error.reason})") from None
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping in which no name stood twice: readers would differ in which one counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)[:80]!r} stands in it twice")
    return found


def _real(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"the number {text[:20]}... is too large")
    return int(text)


def _no_number(text: str) -> None:
    raise ValueError(f"it holds {text}, which is no number")


def check_depth(value: Any) -> None:
    """ValueError for lists and mappings in one another without end."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return
        inner = (node.values() if type(node) is dict else node for node in level)
        level = [item for items in inner for item in items if type(item) in (dict, list)]
    if level:
        raise ValueError("it is nested too deeply")
