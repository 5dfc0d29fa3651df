"""The worker's side of the protocol: one JSON object per line, a request on stdin, its answer on stdout.

    hello                       -> {"versions", "threads", "malloc_kept"}  (sent first, without a request)
    {"do": "build", "case": ..} -> {"build_seconds", "compile_seconds", "loss"}
    {"do": "run", "steps": n}   -> {"seconds", "loss", "peak_mb"}
    {"do": "quit"}
A request that fails is answered with {"error", "numerical"}. A loss that is not finite is sent as null.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from benchmarks.cases import Case

MODULES = {
    "dgpbench": "benchmarks.steps.ours",
    "gpflow": "benchmarks.steps.svgp",
    "gpflux": "benchmarks.steps.deep_gpflux",
    "gpytorch": "benchmarks.steps.deep_gpytorch",
    "matmul": "benchmarks.steps.matmul",
    "blas": "benchmarks.steps.blas",
}
PACKAGES = ("tensorflow", "gpflow", "gpflux", "tf_keras", "torch", "gpytorch", "numpy")
NUMERICAL = re.compile(r"\bnan\b|nanerror|cholesky|not invertible|notpsd|positive.definite", re.IGNORECASE)
Run = Callable[[int], float]  # run so many steps, return the last loss


def serve(library: str, precision: str, threads: int, device: str) -> None:
    """Answer requests until `quit` or the end of stdin."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not come between the answers

    def answer(fields: dict) -> None:
        channel.write(json.dumps(fields) + "\n")
        channel.flush()

    try:
        module = import_module(MODULES[library])
        used = module.set_threads(threads)
        answer({"versions": versions(), "threads": used, "malloc_kept": malloc_kept()})
    except Exception as error:  # noqa: BLE001 - the other side decides what a missing library means
        answer(_failure(error))
        return
    run: Run | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "build":
                began = time.perf_counter()
                run = module.build(Case(**request["case"]), precision, device=device)
                built = time.perf_counter()
                loss = run(1)
                answer(
                    {
                        "build_seconds": built - began,
                        "compile_seconds": time.perf_counter() - built,
                        "loss": _finite(loss),
                    }
                )
            elif request["do"] == "run":
                began = time.perf_counter()
                loss = run(request["steps"])
                seconds = time.perf_counter() - began
                answer({"seconds": seconds, "loss": _finite(loss), "peak_mb": peak_memory_mb()})
            else:
                return
        except Exception as error:  # noqa: BLE001 - reported to the other side, which goes on with the others
            answer(_failure(error))


def _failure(error: Exception) -> dict:
    traceback.print_exc(file=sys.stderr)
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return {"error": text[:300], "numerical": bool(NUMERICAL.search(text))}


def _finite(loss: float) -> float | None:
    return float(loss) if math.isfinite(loss) else None


def versions() -> dict[str, str]:
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def peak_memory_mb() -> float:
    """Largest resident set of this process.

    ru_maxrss begins with the size of the process that started this one; VmHWM, where there is one, does not.
    """
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


class _MallInfo2(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]


def malloc_kept() -> bool | None:
    """True if a large buffer lies in the heap, as the settings ask, and not in a mapping of its own.

    None where the C library cannot say.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallinfo2.restype = _MallInfo2
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.argtypes = [ctypes.c_void_p]
        before = libc.mallinfo2().hblks
        block = libc.malloc(64 << 20)
        after = libc.mallinfo2().hblks
        libc.free(block)
        return after == before
    except (OSError, AttributeError):
        return None
