"""Small sweeps on generated data, as a user calls them."""

import json
import os
import subprocess
import sys
from pathlib import Path

from dgpbench.store.scan import scan

ROOT = Path(__file__).resolve().parents[2]
MODELS = Path(__file__).resolve().parent / "conf"
TINY = ["protocol.test_samples=4", "protocol.draws=20"]
GP = [*TINY, "model.num_inducing=5", "budget.steps=20", "engine.xla=false", "inference.batch=20"]


def environment(**more: str) -> dict:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DGPBENCH_", "SLURM_"))}
    path = os.pathsep.join([str(ROOT), str(Path(__file__).resolve().parent)])
    return env | {"PYTHONPATH": path, "COLUMNS": "120", "OMP_NUM_THREADS": "1", **more}


def write_data(folder: Path, rows: int = 40) -> Path:
    """A csv file with two inputs; only the standard library, so that it is quick and the same everywhere."""
    import random

    rng = random.Random(0)
    lines = []
    for _ in range(rows):
        a, b = rng.gauss(0, 1), rng.gauss(0, 1)
        lines.append(f"{a},{b},{2 * a - b + rng.gauss(0, 0.1)}")
    file = folder / "data.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def data(folder: Path) -> list[str]:
    file = folder / "data.csv"
    return ["dataset=csv", f"dataset.path={file if file.exists() else write_data(folder)}"]


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "dgpbench", *args]


def dgpbench(folder: Path, *args: str, seconds: float = 120, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run(command(*args), cwd=folder, env=environment(**env), capture_output=True, text=True,
                          timeout=seconds)


def sweep(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess:
    return dgpbench(folder, "sweep", *data(folder), *args, **env)


def misbehaving(*args: str) -> list[str]:
    """Options of a sweep whose model does what `model.deed` says."""
    return ["--config-dir", str(MODELS), "model=stub", *TINY, *args]


def records(folder: Path) -> dict[tuple[str, int, int], dict]:
    """The records by (model, split, seed); anything that cannot be read is an error."""
    def refuse(text):
        raise AssertionError(text)

    found = scan(folder / "results", warn=refuse)
    return {(u.record["model"], u.record["split"], u.record["seed"]): u.record for u in found}


def metrics(folder: Path) -> dict:
    return {name: record["metrics"] for name, record in records(folder).items()}


def status(folder: Path) -> list[dict]:
    return json.loads(dgpbench(folder, "status", "--json").stdout)["units"]
