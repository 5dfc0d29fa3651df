"""launcher=local: how many workers this machine takes, and their pool."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dgpbench.machine import usable_cores, visible_gpus
from dgpbench.sweep.plan import Plan
from dgpbench.sweep.pool import Pool


def run_local(
    plan: Plan, indices: Sequence[int], *, force: bool, watcher, until: float = float("inf")
) -> None:
    """Run the units on this machine, at most until a time of time.monotonic()."""
    workers, gpus = capacity(plan, len(indices))
    Pool(plan, workers, gpus, force=force, watcher=watcher, until=until).run(indices)


def capacity(plan: Plan, units: int) -> tuple[int, list[str]]:
    """Workers, and the GPU of each (or none): a GPU each where there are GPUs, else as many as the cores and
    the memory take without sharing."""
    wanted = plan.launcher.workers
    gpus = [] if all(cfg["device"] == "cpu" for cfg in plan.configs) else visible_gpus()
    if gpus:
        count = min(wanted or len(gpus), units)
        return count, [gpus[i % len(gpus)] for i in range(count)]
    count = wanted or max(1, usable_cores() // max(cfg["threads"] for cfg in plan.configs))
    limits = [settings.memory for settings in plan.settings if settings.memory]
    if limits and not wanted:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
        count = max(1, min(count, int(total // max(limits))))
    return max(1, min(count, units)), []
