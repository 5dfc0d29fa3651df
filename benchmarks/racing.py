"""One racer in a process of its own, `worker.py PACKAGE race TASK.json`, in any environment with the library.

The task names the library, its settings, the arrays and the time; the curve goes into a file beside it.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np

from benchmarks.serve import NUMERICAL, versions

MODULES = {
    "dgpbench": "benchmarks.racers.ours",
    "gpflow": "benchmarks.racers.svgp",
    "gpflux": "benchmarks.racers.deep_gpflux",
    "gpytorch": "benchmarks.racers.deep_gpytorch",
}


def main(path: Path) -> None:
    """Run the task of a file, and write what was found into `found.json` beside it."""
    task = json.loads(path.read_text())
    with np.load(path.with_name("data.npz"), allow_pickle=False) as file:
        data = {name: file[name] for name in file.files}
    module = import_module(MODULES[task["library"]])
    module.set_threads(task["threads"])
    try:
        watch, reason = module.race(data, task["settings"], task["seed"], task["seconds"])
        found = {"startup": watch.startup, "points": watch.points, "reason": reason}
    except Exception as error:
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if not NUMERICAL.search(text):
            raise
        found = {"startup": [], "points": [], "reason": text}
    temporary = path.with_name("found.tmp")
    temporary.write_text(json.dumps(found | {"versions": versions()}))
    temporary.replace(path.with_name("found.json"))


def shuffled(rows: int, batch: int, seed: int):
    """Row numbers of one minibatch after the other, epoch by epoch."""
    random = np.random.RandomState(seed)
    while True:
        order = random.permutation(rows)
        for first in range(0, max(1, rows - batch + 1), batch):
            yield order[first : first + batch]
