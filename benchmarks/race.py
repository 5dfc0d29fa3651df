"""The race with the peers: test log-likelihood against seconds of training on one thread, for dgpbench and
for others as their documentation uses them, on the same rows; one run per racer, split and seed, in turns."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.accuracy import typical_splits
from benchmarks.client import PACKAGE, SCRIPT
from benchmarks.kept import Kept
from benchmarks.systems import worker_environment
from dgpbench.config import compose
from dgpbench.data import load_split
from dgpbench.errors import UserError

Note = Callable[[str], None]
DATASETS = ("boston", "concrete", "energy", "winered", "power", "kin8nm")
SHORT, LONG = 100.0, 260.0  # processor seconds of training
FOR_LONG = ("power", "kin8nm")
SPLITS = 2
SAMPLES = {"test_samples": 30}  # of the mixture that is scored
OURS = "dgpbench"
EXTRA_SECONDS = 3600.0  # for start-up, scores and other work on the machine, before a racer counts as lost


@dataclass(frozen=True)
class Racer:
    library: str
    settings: dict = field(default_factory=dict)


_TORCH = {"precision": "float32", "num_inducing": 100, "width": None, "batch": 1000, "samples": 1}
_SPARSE = {"num_inducing": 100, "batch": 1000}
RACERS = {
    OURS: Racer("dgpbench", {"words": ["model=dgp2"]}),
    "dgpbench-shared": Racer("dgpbench", {"words": ["model=dgp2", "model.per_output=none"]}),
    "dgpbench-fast": Racer("dgpbench", {"words": ["model=dgp2", "inference=fast"]}),  # the former default
    "gpytorch": Racer("gpytorch", _TORCH),
    "gpytorch-documented": Racer(  # the numbers of its example
        "gpytorch", _TORCH | {"num_inducing": 128, "width": 10, "batch": 1024, "samples": 10}
    ),
    "gpflux": Racer("gpflux", _SPARSE),
    "dgpbench-sgp": Racer("dgpbench", {"words": ["model=sgp"]}),
    "gpflow": Racer("gpflow", _SPARSE),  # SVGP
}


def is_race(words: Sequence[str]) -> bool:
    """Whether the systems asked for are those of the race with the peers."""
    return any(name in RACERS for word in words for name in word.split(","))


def seconds_of(dataset: str, given: float | None) -> float:
    return given or (LONG if dataset in FOR_LONG else SHORT)


def measure(
    datasets: Sequence[str],
    names: Sequence[str],
    splits: int,
    seconds: float | None,
    pythons: dict[str, str],
    kept: Kept,
    note: Note,
) -> list[dict]:
    """The curves of all racers in turn; those in `kept` are not run again."""
    for name in names:
        if RACERS[name].library not in pythons:
            raise UserError(
                f"no environment has {RACERS[name].library}; name one with --peers-python "
                f"{RACERS[name].library}=PATH, or make them all by `make perf-envs`"
            )
    runs = []
    for dataset in datasets:
        for split in typical_splits(dataset, splits):
            for name in names:
                what = {"dataset": dataset, "split": split, "seed": 0, "system": name}
                racer, time = RACERS[name], seconds_of(dataset, seconds)
                task = asdict(racer) | {"seconds": time, "seed": 0, "threads": 1}
                task["settings"] = racer.settings | SAMPLES
                found, before = kept.measured(
                    what | {"task": task},
                    lambda: _run(pythons[racer.library], dataset, split, task),  # noqa: B023
                )
                runs.append(what | found)
                if not before:
                    last = found["points"][-1] if found["points"] else [0, 0.0, 0.0, float("nan")]
                    why = f" ({found['reason']})" if found["reason"] else ""
                    so_far = f"{last[3]:.3f} after {last[1]:.1f} s, {last[0]:,} steps{why}"
                    note(f"{dataset} {split} {name}: {so_far}")
    return runs


def _run(python: str, dataset: str, index: int, task: dict) -> dict:
    split = load_split(compose([f"dataset={dataset}", f"split={index}", "protocol=dsvi2017"]))
    arrays = {"X": split.X_train, "Y": split.Y_train, "X_test": split.X_test, "Y_test": split.Y_test}
    with tempfile.TemporaryDirectory(prefix="dgpbench-race-") as name:
        folder = Path(name)
        np.savez(folder / "data.npz", **arrays)
        (folder / "task.json").write_text(json.dumps(task))
        done = subprocess.run(
            [python, str(SCRIPT), str(PACKAGE), "race", str(folder / "task.json")],
            env=worker_environment(1),
            capture_output=True,
            text=True,
            timeout=EXTRA_SECONDS + 100 * task["seconds"],
            check=False,
        )
        if not (folder / "found.json").exists():
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise UserError(f"{task['library']} failed on {dataset}: {last[:300]}")
        return json.loads((folder / "found.json").read_text())


# ---- what the curves say ---------------------------------------------------------------------------------


def at(run: dict, seconds: float) -> float | None:
    """The last score of at most so many processor seconds."""
    known = [value for _, cpu, _, value in run["points"] if cpu <= seconds]
    return known[-1] if known else None


def reached(run: dict, value: float) -> float | None:
    """Processor seconds of the first score at or above a value that the next one, if any, confirms."""
    points = run["points"]
    for i, (_, cpu, _, found) in enumerate(points):
        if found >= value and all(after[3] >= value for after in points[i + 1 : i + 2]):
            return cpu
    return None


def behind(
    ours: Sequence[dict], theirs: Sequence[dict], times: Sequence[float]
) -> tuple[float, float, float]:
    """Time, difference (ours - theirs) and what is allowed, where the difference falls most below it: minus
    the larger of 0.03 nat and two standard errors over splits and seeds."""
    worst = (0.0, float("inf"), 0.0)
    for seconds in times:
        pairs = [(at(a, seconds), at(b, seconds)) for a, b in zip(ours, theirs, strict=True)]
        gaps = [a - b for a, b in pairs if a is not None and b is not None]
        if not gaps:
            continue
        error = statistics.stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else 0.0
        found = (seconds, statistics.fmean(gaps), -max(0.03, 2 * error))
        if found[1] - found[2] < worst[1] - worst[2]:
            worst = found
    return worst
