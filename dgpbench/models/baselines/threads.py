"""Threads of libraries that choose their own: as many as the run has, and one for small arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SMALL = 1_000_000  # numbers


@contextmanager
def limited(threads: int | None, numbers: int) -> Iterator[None]:
    """Inside, BLAS and OpenMP take `threads` (None: all cores), or one for a small array."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1 if numbers < SMALL else threads):
        yield
