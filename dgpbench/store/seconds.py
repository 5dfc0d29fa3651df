"""Seconds that a run needed, where its record tells them from those it waited for a core."""

from __future__ import annotations


def core_share(record: dict) -> float:
    """Share of its training time in which a run on the CPU had a core: below 1 beside other work."""
    spent, wall = (record["training"].get(name) or 0.0 for name in ("cpu_seconds", "seconds"))
    known = spent > 0 and wall > 0 and str(record["device"]).startswith("cpu")
    return min(1.0, spent / wall) if known else 1.0


def training_seconds(record: dict) -> float | None:
    """Seconds of training in which the run had a core; of the whole run where training was not timed."""
    spent = record["training"].get("seconds", record["wall_seconds"])
    return None if spent is None else core_share(record) * spent
