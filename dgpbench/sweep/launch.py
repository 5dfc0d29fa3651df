"""The units of a plan on its launcher: this machine, SLURM or Ray."""

from __future__ import annotations

from collections.abc import Sequence

from dgpbench.store.scan import Unit
from dgpbench.store.write import ensure_writable
from dgpbench.sweep.plan import Plan
from dgpbench.sweep.state import Observer, find_record, to_run
from dgpbench.trackers import check_tracker


def launch(
    plan: Plan,
    todo: Sequence[int],
    *,
    force: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    detach: bool = False,
) -> bool:
    """Run or submit the units; False if they were only submitted."""
    from dgpbench.sweep.watch import Watcher

    watcher = Watcher(plan, todo, quiet, verbose)
    name = plan.launcher.name
    try:
        if name == "local":
            from dgpbench.sweep.launchers.local import run_local

            run_local(plan, todo, force=force, watcher=watcher)
        elif name == "slurm":
            from dgpbench.sweep.launchers.slurm import run_slurm

            return run_slurm(plan, todo, force=force, watcher=watcher, detach=detach)
        else:
            from dgpbench.sweep.launchers.ray import run_ray

            run_ray(plan, todo, force=force, watcher=watcher)
    finally:
        watcher.clear()
    return True


def complete(
    plan: Plan, *, retry: str = "missing", quiet: bool = True, verbose: bool = False
) -> list[Unit | None]:
    """Run what a plan lacks and wait for it; returns the record of each unit, None where there is none."""
    states = Observer(plan).look()
    todo = to_run(states, retry)
    if plan.launcher.name == "local" and retry != "none":  # their process may be about to let them go
        todo += [index for index, state in states.items() if state.status == "running"]
    if todo:
        from dgpbench.sweep.trial import check_models

        check_tracker(plan.configs[0])
        check_models(plan, todo, lambda text: None)
        ensure_writable(plan.results)
        plan.save()
        launch(plan, todo, force=retry == "all", quiet=quiet, verbose=verbose)
    return [find_record(plan, index) for index in range(len(plan.units))]
