"""Small sweeps on generated data, as a user calls them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


def command(*args: str, python: str = sys.executable) -> list[str]:
    return [python, "-m", "dgpbench", *args]


def dgpbench(
    folder: Path, *args: str, seconds: float = 120, python: str = sys.executable, **env: str
) -> subprocess.CompletedProcess:
    words = command(*args, python=python)
    return subprocess.run(
        words, cwd=folder, env=environment(**env), capture_output=True, text=True, timeout=seconds
    )


@contextmanager
def started(folder: Path, *args: str, python: str = sys.executable, **env: str) -> Iterator[subprocess.Popen]:
    """The command in the background; whatever happens, it does not outlive the block."""
    process = subprocess.Popen(
        command(*args, python=python),
        cwd=folder,
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # tests may run under nohup
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def sweep(folder: Path, *args: str, seconds: float = 120, **env: str) -> subprocess.CompletedProcess:
    return dgpbench(folder, "sweep", *data(folder), *args, seconds=seconds, **env)


def misbehaving(*args: str) -> list[str]:
    """Options of a sweep whose model does what `model.deed` says."""
    return ["--config-dir", str(MODELS), "model=stub", *TINY, *args, "--no-check"]


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


def training(folder: Path, but=(), seconds: float = 120) -> dict:
    """The lease of a unit that is well into its training and has written a checkpoint."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for path in (folder / "results/.leases").glob("*.json"):
            try:
                lease = json.loads(path.read_text())
            except (OSError, ValueError):
                continue
            saved = any((folder / "results").glob(f"*/*/*/split*-{lease['key'][:8]}/checkpoint.npz"))
            if saved and lease["progress"].get("step", 0) > 0 and lease["job"] not in but:
                return lease
        time.sleep(0.2)
    raise AssertionError("no unit got going")
