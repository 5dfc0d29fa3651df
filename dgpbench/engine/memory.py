"""Monte Carlo samples of a step against the memory there is."""

from __future__ import annotations

from dgpbench.errors import UserError
from dgpbench.inference.base import Bound

NUMBER = 8  # bytes
KEPT = 6  # arrays of a sample that are kept for the gradient, for each that the sample has


def sample_bytes(bound: Bound, batch: int) -> int:
    """About what one of a bound's samples takes in a step: columns, and the M x M part where it is drawn."""
    columns = batch * (max(bound.noise_dim, 1) + bound.input_dim + bound.target_dim + bound.column_numbers)
    return NUMBER * KEPT * (columns + bound.drawn_numbers) * (bound.columns // bound.samples)


def available() -> int:
    """Bytes that this machine can give now."""
    import psutil

    return psutil.virtual_memory().available


def check_samples(bound: Bound, batch: int) -> None:
    """UserError where a step's samples do not fit, with how many do."""
    each, free = sample_bytes(bound, batch), available()
    needed = bound.samples * each
    if needed > free:
        raise UserError(
            f"inference.samples={bound.samples} takes about {needed / 1e9:,.0f} GB in each step and "
            f"{free / 1e9:,.1f} GB are free; at most {max(free // each, 1):,} fit"
        )
