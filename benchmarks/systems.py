"""Systems that are measured: their interpreters, and the settings that all of them share."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.cases import Case
from dgpbench.errors import UserError

ENVS_VARIABLE = "DGPBENCH_PERF_ENVS"
DEFAULT_ENVS = ".perf-envs"
PEERS = ("gpflux", "gpytorch")  # in environments of their own, since their requirements clash

# glibc's variables for what engine/platform.py sets by mallopt: large buffers stay in the heap between steps.
MALLOC = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_TOP_PAD_": str(256 << 20),
}


@dataclass(frozen=True)
class System:
    """A library at a precision. `only_sparse`: it has no deep model. `importance`: samples of iwvi. `own`:
    layers as GPyTorch has them, with a kernel for each output."""

    library: str
    precision: str
    only_sparse: bool = False
    importance: int = 0
    own: bool = False

    @property
    def name(self) -> str:
        return f"{'iwvi' if self.importance else 'own' if self.own else self.library}-{self.precision}"

    def takes(self, case: Case) -> bool:
        if self.own:
            return not case.latent and case.depth > 1 and case.width > 1
        if case.latent:  # no peer has importance-weighted inference for deep GPs
            return self.library == "dgpbench"
        return not self.importance and (case.depth == 1 or not self.only_sparse)

    def at(self, case: Case) -> Case:
        """The case as this system runs it."""
        return replace(case, importance=self.importance) if case.latent else replace(case, own=self.own)


SYSTEMS = {
    system.name: system
    for system in (
        System("dgpbench", "float64"),
        System("dgpbench", "mixed"),
        System("dgpbench", "float32"),
        System("dgpbench", "float64", importance=5),
        System("dgpbench", "mixed", importance=5),
        System("dgpbench", "mixed", own=True),
        System("dgpbench", "float32", own=True),
        System("gpflow", "float64", only_sparse=True),
        System("gpflux", "float64"),
        System("gpflux", "float32"),
        System("gpytorch", "float64"),
        System("gpytorch", "float32"),
    )
}


def interpreters(given: Sequence[str]) -> dict[str, str]:
    """Interpreter of each library that has one. `given`: a folder of environments, or LIBRARY=PATH each."""
    found = {"dgpbench": sys.executable, "gpflow": sys.executable}
    folder = Path(os.environ.get(ENVS_VARIABLE) or DEFAULT_ENVS)
    named: dict[str, Path] = {}
    for word in given:
        library, equals, path = word.partition("=")
        if not equals:
            folder = Path(word)
            if not folder.is_dir():
                raise UserError(
                    f"--peers-python {word}: no folder; give one that holds gpflux/ and gpytorch/"
                )
        elif library not in PEERS:
            raise UserError(f"--peers-python {word}: '{library}' is none of {', '.join(PEERS)}")
        else:
            named[library] = Path(path)
    for library in PEERS:
        path = named.get(library, folder / library)
        python = path / "bin" / "python" if path.is_dir() else path
        if python.is_file():
            found[library] = str(python.absolute())
        elif library in named:
            raise UserError(f"--peers-python {library}={path}: neither an interpreter nor an environment")
    return found


def worker_environment(threads: int, device: str = "cpu") -> dict[str, str]:
    """Environment of every worker: same malloc settings, same number of threads, no word from TensorFlow; no
    GPU in sight unless it is to be timed."""
    count = str(threads)
    limits = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    limits += ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1"}
    hidden = {"CUDA_VISIBLE_DEVICES": "-1"} if device == "cpu" else {}
    return {**os.environ, **MALLOC, **dict.fromkeys(limits, count), **quiet, **hidden}
