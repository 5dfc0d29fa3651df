"""Point patterns: places or times of events in, bins with their midpoint and count out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dgpbench.data.readers.text import line_chunks, open_text
from dgpbench.errors import UserError


def read_events(path: Path, options: dict):
    """Rows (midpoint of a bin, events in it), the last axis running fastest.

    `bins` in each dimension; `low` and `high` are the window, the range of the events where it is not given;
    events are multiplied by `scale`. A source is text with one event a line, or, with `payload`, an array of
    little-endian float64 numbers inside some other format, of which nothing else is read.
    """
    events = _payload(path, **options["payload"]) if "payload" in options else _lines(path)
    events = events * options.get("scale", 1.0)
    D = events.shape[1]
    low, high = (options.get(name, getattr(events, f)()) for name, f in (("low", "min"), ("high", "max")))
    outside = ((events < low) | (events > high)).any(1)
    if outside.any():
        raise UserError(f"{path}: event {int(outside.argmax())} lies outside the window from {low} to {high}")
    edges = np.linspace(low, high, options["bins"] + 1)
    counts, _ = np.histogramdd(events, [edges] * D)
    middles = np.meshgrid(*[0.5 * (edges[1:] + edges[:-1])] * D, indexing="ij")
    yield np.column_stack([*(m.ravel() for m in middles), counts.ravel()])


def _lines(path: Path) -> np.ndarray:
    with open_text(path) as file:
        return np.vstack(list(line_chunks(file, path, ",", 0, None)))


def _payload(path: Path, after: str, count: int, columns: int) -> np.ndarray:
    """The count x columns numbers that follow the only occurrence of the bytes `after` (hexadecimal)."""
    content, mark = path.read_bytes(), bytes.fromhex(after)
    start = content.find(mark) + len(mark)
    size = 8 * count * columns
    if content.count(mark) != 1 or len(content) < start + size:
        raise UserError(f"{path}: {count} x {columns} numbers are not where they should be; fetch it again")
    events = np.frombuffer(content, "<f8", count * columns, start).reshape(count, columns).astype(float)
    if not np.isfinite(events).all():
        raise UserError(f"{path}: an event has no finite place; fetch it again")
    return events
