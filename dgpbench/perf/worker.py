"""A worker process: `worker.py LIBRARY PRECISION THREADS DEVICE`, or `worker.py race TASK.json`, in any
environment that has the library.

dgpbench is not installed beside the peers: the package is made importable from this file's own folder,
without its neighbours in site-packages, which would take the place of the peers' requirements.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def make_importable(package: Path) -> None:
    here = package / "perf"
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != here]
    spec = importlib.util.spec_from_file_location(
        "dgpbench", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["dgpbench"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    make_importable(Path(__file__).resolve().parents[1])
    if sys.argv[1] == "race":
        from dgpbench.perf.racing import main

        main(Path(sys.argv[2]))
    else:
        from dgpbench.perf.serve import serve

        library, precision, threads, device = sys.argv[1:]
        serve(library, precision, int(threads), device)
