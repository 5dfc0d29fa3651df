"""A record's checksum of itself: its last member is the sha256 of all the text before that member."""

from __future__ import annotations

import hashlib
import json
import re

NAME = "checksum"
SEALED_SINCE = 2  # schema version
_MEMBER = f'"{NAME}": "'
_END = re.compile(rb'"\s*\}\s*')


def dumps(record: dict) -> str:
    """JSON with one top-level field per line: small, and still readable by eye and by diff."""
    lines = (f' "{name}": {json.dumps(value, allow_nan=False)}' for name, value in record.items())
    return _sealed("{\n" + ",\n".join(lines) + ",\n ", "\n}\n")


def dumps_line(record: dict) -> str:
    """The same in a single line, as reference files have it."""
    return _sealed(json.dumps(record, allow_nan=False, ensure_ascii=False)[:-1] + ", ", "}\n")


def fits(content: bytes) -> bool:
    """Whether a text ends with the checksum of what precedes it."""
    head, _, tail = content.rpartition(_MEMBER.encode())
    stated = tail[:64].decode("ascii", "replace")
    return bool(_END.fullmatch(tail[64:])) and hashlib.sha256(head).hexdigest() == stated


def _sealed(head: str, end: str) -> str:
    return f'{head}{_MEMBER}{hashlib.sha256(head.encode()).hexdigest()}"{end}'
