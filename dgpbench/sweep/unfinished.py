"""Records of units that could not write their own: killed, out of memory, out of time, refused."""

from __future__ import annotations

from typing import Any

from dgpbench.config.keys import run_key
from dgpbench.machine import git_commit, processor, versions
from dgpbench.store.record import build_record
from dgpbench.store.scan import Unit
from dgpbench.store.write import write_unit
from dgpbench.sweep.lease import drop_stale
from dgpbench.sweep.plan import Plan
from dgpbench.sweep.state import find_record, timed


def record_outcome(
    plan: Plan, index: int, status: str, reason: str, seconds: float | None = None, **details
) -> Unit:
    """Store how a unit ended; returns the record that stands, a done one if there was one after all.

    An interrupted unit has written sizes, notes and more itself: those stay, the verdict is ours.
    """
    cfg = plan.config(index)
    standing = find_record(plan, index)
    fields: dict[str, Any] = {"status": status, "reason": reason, "wall_seconds": seconds, "details": details}
    if standing and standing.record.status == "interrupted":
        kept = ("sizes", "notes", "training", "threads", "device", "deviations")
        fields |= {name: standing.record[name] for name in kept}
        cfg, key = standing.record.config, standing.record.key
    else:
        fields |= {"threads": cfg["threads"]}
        key = plan.units[index].key
        if timed(cfg):  # the unit did not live to say on what; most likely it was the processor
            cfg = cfg | {"device": f"cpu {processor()}"}
            key = run_key(cfg, plan.data_hash(index))
    record = build_record(
        cfg,
        key=key,
        config_key=plan.config_key(index),
        data_hash=plan.data_hash(index),
        versions=versions(),
        git_commit=git_commit(),
        **fields,
    )
    return write_unit(plan.results, record)


def record_lost(plan: Plan, index: int, status: str, reason: str) -> Unit:
    """Record the end of a unit whose whole job has gone, and drop its lease."""
    unit = record_outcome(plan, index, status, reason)
    drop_stale(plan.results, plan.units[index].key)
    return unit
