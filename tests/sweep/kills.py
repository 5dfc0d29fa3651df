"""SIGKILL at random moments, of workers and of the sweep itself, and what must hold afterwards.

Kills are paced by what the sweep does, not by the clock, so that they hit it on any machine.
"""

import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
from sweep_tools import command, environment

from dgpbench.engine.checkpoint import NAME as CHECKPOINT
from dgpbench.store.scan import scan
from dgpbench.sweep.child import LOG

PATIENCE = 300.0  # seconds to wait for a sign of life


def refuse(text):
    raise AssertionError(text)


def done_units(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Folders of done units with their record's bytes and how often the unit was started. No kill is a unit's
    fault: every other record says interrupted."""
    found = {}
    for unit in scan(folder / "results", warn=refuse):
        assert unit.record["status"] in ("done", "interrupted"), unit.record["reason"]
        if unit.record["status"] == "done":
            starts = (unit.folder / LOG).read_text().count("---- ")
            found[unit.folder] = (unit.path.read_bytes(), starts)
    return found


class Harassed:
    """A sweep that is killed and started again."""

    def __init__(self, folder: Path, sweep: list[str], seed: int = 0):
        self.folder, self.words, self.rng = folder, sweep, random.Random(seed)
        self.hits = {"sweep": 0, "worker": 0}
        self.before: dict[Path, tuple[bytes, int]] = {}
        self.log = open(folder / "harassed.log", "ab")
        self.start()

    def start(self) -> None:
        words, log = command("sweep", *self.words), self.log
        self.running = subprocess.Popen(words, cwd=self.folder, env=environment(), stdout=log, stderr=log)

    def workers(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.running.pid).children()
        except psutil.Error:
            return []

    def started_units(self) -> int:
        logs = (self.folder / "results").glob(f"*/*/*/*/{LOG}")
        return sum(path.read_text().count("---- ") for path in logs)

    def wait_for_a_start(self, so_far: int) -> bool:
        """Until another unit is begun; False if the sweep has ended first."""
        end = time.monotonic() + PATIENCE
        while self.started_units() <= so_far:
            if self.running.poll() is not None:
                return False
            assert time.monotonic() < end, "nothing happens"
            time.sleep(0.02)
        return True

    def check(self) -> None:
        for place, seen in (now := done_units(self.folder)).items():
            assert self.before.get(place, seen) == seen, f"{place} was done and has changed"
        assert set(self.before) <= set(now), "a finished unit is lost"
        self.before = now

    def kill_worker(self) -> None:
        if workers := self.workers():
            self.rng.choice(workers).kill()
            self.hits["worker"] += 1

    def kill_sweep(self, number: int = signal.SIGKILL, settle: bool = False) -> None:
        """Kill the sweep; with `settle`, see its workers end, each unit with its checkpoint."""
        workers = self.workers()
        self.running.send_signal(number)
        self.running.wait()
        self.hits["sweep"] += 1
        if settle:
            assert not psutil.wait_procs(workers, timeout=PATIENCE)[1], "a worker outlives its sweep"
            self.check()

    def close(self) -> None:
        self.running.kill()
        self.running.wait()
        self.log.close()


def harass(folder: Path, sweep: list[str], kills: int, spread: float, seed: int = 0, settle: bool = False):
    """Run the sweep under up to `kills` SIGKILLs, a third of them at the sweep itself, each up to `spread`
    seconds after the start of a unit; what was done by then and the number of kills are in the result."""
    it = Harassed(folder, sweep, seed)
    try:
        while sum(it.hits.values()) < kills:
            if not it.wait_for_a_start(it.started_units()):
                if it.running.returncode == 0:
                    break
                it.start()
                continue
            time.sleep(it.rng.uniform(0.0, spread))
            it.check()
            if it.rng.random() < 2 / 3:
                it.kill_worker()
            else:
                it.kill_sweep(settle=settle and it.rng.random() < 0.5)
                it.start()
    finally:
        it.close()
    return it


def interrupted_without_checkpoint(folder: Path) -> list[Path]:
    """Units that were stopped in training and could not go on from where they were."""
    units = scan(folder / "results", warn=refuse)
    return [
        unit.folder
        for unit in units
        if " at step " in (unit.record["reason"] or "") and not (unit.folder / CHECKPOINT).is_file()
    ]
