"""launcher=ray: units as tasks of a Ray cluster, an existing one or one that lives as long as the sweep."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dgpbench.errors import UserError
from dgpbench.sweep.plan import Plan, load_plan
from dgpbench.sweep.pool import record_lost
from dgpbench.sweep.state import Observer

if TYPE_CHECKING:
    from dgpbench.sweep.launch import Watcher

SETTLE = 30.0  # seconds that a shared file system may take to show a record
UNSETTLED = ("missing", "running", "stale")
QUIET = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0"}


def run_ray(plan: Plan, indices: Sequence[int], *, force: bool, watcher: Watcher) -> None:
    """Run the units as tasks and wait for them; a task that Ray loses for good is recorded as such."""
    ray = _connect(plan.launcher.address)
    path, observer = str((plan.home / "plan.json").resolve()), Observer(plan)
    try:
        tasks = {}
        for bundle in _bundles(plan, indices):
            settings = plan.settings[plan.units[bundle[0]].config]
            remote = ray.remote(_task).options(
                num_cpus=settings.cpus,
                num_gpus=settings.gpus or 0,
                memory=int(settings.memory * 1.1e9 + 3e8) if settings.memory else None,
                max_retries=settings.retries,
                name=plan.label(bundle[0]),
            )
            tasks[remote.remote(path, bundle, force)] = bundle
        _check_feasible(ray, plan)
        while tasks:
            ready, _ = ray.wait(list(tasks), num_returns=len(tasks), timeout=plan.launcher.poll)
            for task in ready:
                _ended(ray, task, tasks.pop(task), plan, observer, watcher)
            running = sum(
                s.status == "running" for s in observer.look([i for b in tasks.values() for i in b]).values()
            )
            watcher.show(running)
    finally:
        ray.shutdown()


def _connect(address: str | None) -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise UserError(
            "launcher=ray needs Ray; pip install 'dgpbench[ray]', or use launcher=local"
        ) from None
    _check_address(address)
    os.environ.update({k: v for k, v in QUIET.items() if k not in os.environ})
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            include_dashboard=False if address is None else None,
            logging_level="ERROR",
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(_no_cluster(address, str(error).strip().splitlines()[0])) from None
    return ray


def _check_address(address: str | None) -> None:
    """Ray waits for minutes for a cluster that is not there; we ask first."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise UserError(_no_cluster(address, error.strerror or str(error))) from None


def _no_cluster(address: str | None, reason: str) -> str:
    advice = "start one with `ray start --head`, see that its token is set here too, or leave the address out"
    return f"no Ray cluster at launcher.address={address} ({reason}); {advice}"


def _bundles(plan: Plan, indices: Sequence[int]) -> list[list[int]]:
    """Units of one config, as many as run in one task."""
    out: list[list[int]] = []
    for index in indices:
        number = plan.units[index].config
        full = not out or len(out[-1]) >= plan.settings[number].bundle
        if full or plan.units[out[-1][0]].config != number:
            out.append([])
        out[-1].append(index)
    return out


def _check_feasible(ray: Any, plan: Plan) -> None:
    """A task that no node can ever hold would wait for ever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for settings in plan.settings:
        wanted = {"CPU": settings.cpus, "GPU": settings.gpus, "memory": (settings.memory or 0) * 1.1e9}
        if not any(all(node.get(k, 0) >= v for k, v in wanted.items()) for node in nodes):
            have = ", ".join(f"{n.get('CPU', 0):g} CPUs and {n.get('GPU', 0):g} GPUs" for n in nodes)
            raise UserError(
                f"no node of the Ray cluster has {settings.cpus} CPUs, {settings.gpus:g} GPUs and "
                f"{settings.memory or 0:g} GB for a unit; nodes: {have or 'none'}"
            )


def _task(path: str, indices: list[int], force: bool) -> None:
    """Run units, as Ray calls it, in a process of their own: Ray's worker outlives whatever they do."""
    import ray

    from dgpbench.errors import Interrupted
    from dgpbench.sweep.pool import run_task

    plan = load_plan(path)
    if os.path.isdir(plan.cwd):
        os.chdir(plan.cwd)
    job = f"ray {ray.get_runtime_context().get_task_id()[:16]}"
    try:
        run_task(plan, indices, force=force, job=job)
    except Interrupted:
        sys.exit(1)


def _ended(ray: Any, task: Any, bundle: list[int], plan: Plan, observer: Observer, watcher: Watcher) -> None:
    """Tell how the units of a task ended; those without a record get one."""
    lost = None
    try:
        ray.get(task)
    except Exception as error:  # noqa: BLE001 - whatever Ray says is the reason
        lost = (
            f"its Ray task failed ({type(error).__name__}: {(str(error).strip().splitlines() or [''])[-1]})"
        )
    states, end = observer.look(bundle), time.monotonic() + (0.0 if lost else SETTLE)
    while any(state.status in UNSETTLED for state in states.values()) and time.monotonic() < end:
        time.sleep(0.5)
        states = observer.look(bundle)
    for index, state in states.items():
        if state.status in UNSETTLED:
            reason = lost or "its Ray task has ended, but no record is seen"
            unit = record_lost(plan, index, "interrupted", reason)
            watcher.ended(index, unit.record.status, unit.record.reason)
        else:
            watcher.ended(index, state.status, state.reason)
