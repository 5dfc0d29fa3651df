"""Facts about the machine and the software that a record keeps, and the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("dgpbench", "tensorflow", "tensorflow-probability", "gpflow", "numpy", "scipy")
CACHE = "DGPBENCH_CACHE"  # variable that names another cache folder; empty means none
ROUND = 0.0019  # processor seconds of `round_seconds` on the machine of the reference records, an AMD EPYC


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Python and the packages that numbers depend on."""
    out = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            from dgpbench import __version__

            out |= {name: __version__} if name == "dgpbench" else {}
    return out


@lru_cache(maxsize=1)
def git_commit() -> str | None:
    """The commit of dgpbench's own source if it runs from a clone, with + if the tree has changes."""
    folder = Path(__file__).resolve().parent.parent
    if not (folder / ".git").exists():
        return None
    try:
        run = lambda *args: subprocess.run(  # noqa: E731
            ["git", "-C", str(folder), *args], capture_output=True, text=True, timeout=5, check=True
        ).stdout.strip()
        return run("rev-parse", "HEAD") + (
            "+" if run("status", "--porcelain", "--untracked-files=no") else ""
        )
    except (OSError, subprocess.SubprocessError):
        return None


@lru_cache(maxsize=1)
def processor() -> str:
    """The name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """The cores this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def forget_peak_memory() -> None:
    """Let the next `peak_memory` be that from now on, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def peak_memory() -> int | None:
    """The most main memory in bytes that this process has had; None where it cannot be known."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        import resource
    except ImportError:  # not Unix
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def visible_gpus() -> list[str]:
    """The GPUs this process may use, as CUDA_VISIBLE_DEVICES names them; found without TensorFlow."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(i) for i, line in enumerate(filter(None, listing.splitlines())) if line.startswith("GPU")]


def describe_device(model) -> str:
    """The device a model computes on: the processor, or the GPU's name."""
    if "GPU" in getattr(model, "device", "") and "tensorflow" in sys.modules:
        tf = sys.modules["tensorflow"]
        details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
        return f"gpu {details.get('device_name', 'unknown')}"
    return f"cpu {processor()}"


@lru_cache(maxsize=1)
def pace() -> float:
    """Return how many times as long this machine takes as that of the reference records.

    Timed once, for half a second, and kept in the cache folder; for a tenth of that where there is none. A
    time taken beside other work, which slows down the processor, is kept for a day.
    """
    import numpy as np

    about = hashlib.sha256(f"{ROUND} {processor()} {np.__version__}".encode()).hexdigest()
    base = cache_folder()
    place = base / f"pace-{about[:32]}.json" if base else None
    known = read_cached(place, "pace") if place else None
    if isinstance(known, list) and (known[1] is None or time.time() < known[1]):
        return float(known[0])
    began, spent = time.perf_counter(), time.process_time()
    found = round_seconds(0.5 if place else 0.05) / ROUND
    alone = time.process_time() - spent > 0.8 * (time.perf_counter() - began)
    if place:
        write_cached(place, "pace", [found, None if alone else time.time() + 86400.0], 4)
    return found


def round_seconds(budget: float) -> float:
    """Return the least processor time of a round of small products, factors and exponentials."""
    import numpy as np

    rng = np.random.default_rng(0)
    a = rng.normal(size=(40, 60, 60))  # small enough for one thread each
    b = a @ a.transpose(0, 2, 1) + 60.0 * np.eye(60)
    times, end = [], time.perf_counter() + budget
    while not times or time.perf_counter() < end:
        began = time.process_time()
        np.linalg.cholesky(b)
        np.exp(-((a @ b) ** 2))
        for _ in range(75):
            b[0].sum()
        times.append(time.process_time() - began)
    return min(times)


def cache_folder() -> Path | None:
    """Return the folder for values that can be computed again; None if there is none."""
    if CACHE in os.environ:
        return Path(os.environ[CACHE]) if os.environ[CACHE] else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "dgpbench" if os.path.isabs(base) else None


def write_cached(path: Path, name: str, value: Any, files: int) -> None:
    """Write a value with its checksum, and delete all but the last `files` files NAME-*.json next to it.

    Errors are ignored: the cache is optional.
    """
    text = json.dumps(value)
    document = json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), name: text})
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(document)
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
        others = sorted(path.parent.glob(f"{name}-*.json"), key=lambda p: p.stat().st_mtime)
        for old in others[:-files]:
            old.unlink(missing_ok=True)


def read_cached(path: Path, name: str) -> Any:
    """Return a value that `write_cached` wrote; None if it is damaged or others can write the file."""
    try:
        with open(path, encoding="utf-8") as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
                return None
            document = json.load(file)
        text = document[name]
        if hashlib.sha256(text.encode()).hexdigest() != document["sha256"]:
            return None
        return json.loads(text)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
