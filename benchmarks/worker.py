"""A worker process, in any environment that has the library; PACKAGE is the folder of dgpbench:

    worker.py PACKAGE LIBRARY PRECISION THREADS DEVICE
    worker.py PACKAGE race TASK.json

dgpbench is not installed beside the peers: it and this package are made importable from their folders,
without their neighbours in site-packages, which would take the place of the peers' requirements.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def make_importable(package: Path) -> None:
    """Make a package importable by its folder's name."""
    spec = importlib.util.spec_from_file_location(
        package.name, package / "__init__.py", submodule_search_locations=[str(package)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[package.name] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != here]
    for package in (here, Path(sys.argv.pop(1))):
        make_importable(package)
    if sys.argv[1] == "race":
        from benchmarks.racing import main

        main(Path(sys.argv[2]))
    else:
        from benchmarks.serve import serve

        library, precision, threads, device = sys.argv[1:]
        serve(library, precision, int(threads), device)
