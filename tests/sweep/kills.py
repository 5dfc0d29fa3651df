"""SIGKILL at random moments, of workers and of the sweep itself, and what must hold afterwards."""

import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
from sweep_tools import command, environment

from dgpbench.store.scan import scan
from dgpbench.sweep.child import LOG


def refuse(text):
    raise AssertionError(text)


def done_units(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Folders of done units with their record's bytes and how often the unit was started."""
    found = {}
    for unit in scan(folder / "results", warn=refuse):
        if unit.record["status"] == "done":
            starts = (unit.folder / LOG).read_text().count("---- ")
            found[unit.folder] = (unit.path.read_bytes(), starts)
    return found


def harass(folder: Path, sweep: list[str], kills: int, pause: tuple[float, float], seed: int = 0) -> dict:
    """Run the sweep under `kills` SIGKILLs, a third of them at the sweep itself; returns what was done by
    then, and the number of kills that hit workers."""
    rng = random.Random(seed)
    log = open(folder / "harassed.log", "ab")

    def start() -> subprocess.Popen:
        return subprocess.Popen(
            command("sweep", *sweep), cwd=folder, env=environment(), stdout=log, stderr=log
        )

    running, hits = start(), {"sweep": 0, "worker": 0}
    before: dict[Path, tuple[bytes, int]] = {}
    while sum(hits.values()) < kills:
        time.sleep(rng.uniform(*pause))
        assert running.poll() is None or running.returncode != 0, f"all done after {hits}: too few kills"
        for place, seen in (now := done_units(folder)).items():
            assert before.get(place, seen) == seen, f"{place} was done and has changed"
        assert set(before) <= set(now), "a finished unit is lost"
        before = now
        if running.poll() is not None:
            running = start()
        elif rng.random() < 2 / 3:
            hits["worker"] += _kill_one(running, rng)
        else:
            running.send_signal(signal.SIGKILL)
            running.wait()
            hits["sweep"] += 1
            running = start()
    running.send_signal(signal.SIGKILL)  # one more, so that the last word is the next sweep's
    running.wait()
    log.close()
    return {"done": before, **hits}


def _kill_one(running: subprocess.Popen, rng: random.Random) -> int:
    """Kill one of the sweep's workers once it has some; returns how many were killed."""
    end = time.monotonic() + 10.0
    while running.poll() is None and time.monotonic() < end:
        try:
            if workers := psutil.Process(running.pid).children():
                time.sleep(rng.uniform(0.0, 0.5))
                rng.choice(workers).kill()
                return 1
        except psutil.Error:
            continue
        time.sleep(0.02)
    return 0
