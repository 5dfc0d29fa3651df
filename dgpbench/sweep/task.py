"""A few units as one job of a cluster: their pool, and what SLURM wants when it takes the machine away."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence

from dgpbench.errors import Interrupted
from dgpbench.machine import visible_gpus
from dgpbench.store.write import ensure_writable
from dgpbench.sweep.plan import Plan
from dgpbench.sweep.pool import Pool


def run_task(
    plan: Plan, indices: Sequence[int], *, force: bool = False, watcher=None, job: str | None = None
) -> None:
    """Run units one after another in one process of their own. SIGUSR1 says that the time limit is near: the
    unit writes its checkpoint, and the job asks to be queued again."""
    ensure_writable(plan.results)
    near: list[int] = []
    pool = Pool(plan, 1, gpus_of(plan, indices), force=force, job=job or slurm_job(), watcher=watcher)

    def limit(number, frame) -> None:
        near.append(number)
        pool.signals.append(signal.SIGTERM)

    before = signal.signal(signal.SIGUSR1, limit)
    try:
        pool.run(indices)
    except Interrupted:
        ours = plan.launcher.name == "slurm" and plan.launcher.requeue
        again = near and ours and not force  # with force it would begin again and again
        if not (again and _requeue(plan.launcher.requeues)):
            raise
    finally:
        signal.signal(signal.SIGUSR1, before)


def gpus_of(plan: Plan, indices: Sequence[int]) -> list[str]:
    """The GPUs that the cluster gave this job, all for its one process; none if no unit is to use one."""
    chosen = {plan.units[i].config for i in indices}
    wanted = any(plan.configs[c]["device"] != "cpu" and getattr(plan.settings[c], "gpus", 1) for c in chosen)
    found = ",".join(visible_gpus()) if wanted else ""
    return [found] if found else []


def slurm_job() -> str | None:
    """This job as squeue names it: 123, or 123_4 in an array."""
    array, task = (os.environ.get(f"SLURM_ARRAY_{name}") for name in ("JOB_ID", "TASK_ID"))
    return f"{array}_{task}" if array else os.environ.get("SLURM_JOB_ID")


def _requeue(limit: int) -> bool:
    """Ask SLURM to queue this job again, if it has not been for `limit` times; whether it will be."""
    if int(os.environ.get("SLURM_RESTART_COUNT") or 0) >= limit:
        return False
    command = ["scontrol", "requeue", os.environ.get("SLURM_JOB_ID", "")]
    try:
        return subprocess.run(command, capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
