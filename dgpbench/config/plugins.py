"""Kernels, likelihoods, metrics and figures by name: built in and of users.

A kernel, likelihood, metric or figure is a class or function below the decorator of its kind, whose first
argument is its name:

    @kernel("spectral_mixture")
    class SpectralMixture(Part): ...

It is in a module of this package (HOMES), in a .py file of a --config-dir folder, or in the module that an
entry point of the group dgpbench.plugins names. Names are read from the source text: listing runs no code,
and `load` imports the module of the entry that is asked for.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from dgpbench.errors import UserError

MODULES = "dgpbench.plugins"  # entry points of modules with kernels, likelihoods, metrics and figures
HOMES = {  # of what is built in
    "kernel": "gp/kernels/covariances.py",
    "likelihood": "gp/likelihoods/distributions.py",
    "metric": "evaluate/metrics.py",
    "run_figure": "report/charts/run_charts.py",
    "comparison_figure": "report/comparison/methods.py",
}
_used: dict[str, None] = {}  # config folders of this process
_declared: dict[tuple[str, str], str] = {}  # targets that configs of this process name, by kind and name


class Entry(NamedTuple):
    """A kernel, likelihood, metric or figure of this package or of a user."""

    kind: str
    name: str
    target: str  # module.Class
    file: Path | None  # None: known by its target only


def place(module: str) -> Path | None:
    """Return the path of a module on disk, without suffix and without importing it."""
    from importlib.util import find_spec

    top, *rest = module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec and not spec.submodule_search_locations and not rest and spec.origin:
        return Path(spec.origin).with_suffix("")
    places = (spec.submodule_search_locations or ()) if spec else ()
    return next((Path(place, *rest).resolve() for place in places), None)


def use(config_dirs: Sequence[str | Path]) -> None:
    """Let this process find the modules and entries in folders that the user gave."""
    for folder in config_dirs:
        path = str(Path(folder).expanduser().resolve())
        _used[path] = None
        if path not in sys.path:
            sys.path.append(path)  # at the end: it replaces no other module


def used() -> list[str]:
    """Return the folders that the user gave to this process."""
    return list(_used)


def entries(kind: str) -> dict[str, Entry]:
    """Return all entries of a kind by name, the built-in ones first."""
    declared = {n: Entry(kind, n, target, None) for (k, n), target in _declared.items() if k == kind}
    return built_in(kind) | {
        n: e for n, e in (declared | own_entries(kind)).items() if n not in built_in(kind)
    }


def declare(kind: str, targets: Mapping[str, Mapping[str, str]]) -> None:
    """Let names mean the targets that a trusted config states: {name: {"_target_": "module.Class"}}."""
    for name, section in targets.items():
        target = section.get("_target_") if isinstance(section, Mapping) else None
        if not isinstance(target, str):
            raise UserError(f"model.{kind}s.{name} is not allowed; it is set by model.{kind}")
        _declared[kind, name] = target


@lru_cache(maxsize=8)
def built_in(kind: str) -> dict[str, Entry]:
    """Return the entries of this package by name."""
    package = Path(__file__).resolve().parents[1]
    module = f"{package.name}.{HOMES[kind].removesuffix('.py').replace('/', '.')}"
    return {e.name: e for e in file_entries(package / HOMES[kind], module) if e.kind == kind}


def own_entries(kind: str, config_dirs: Sequence[str] | None = None) -> dict[str, Entry]:
    """Return entries of installed packages and of folders by name.

    `config_dirs=None` means all folders that this process has used.
    """
    folders = _used if config_dirs is None else [str(Path(d).expanduser().resolve()) for d in config_dirs]
    found: dict[str, Entry] = {}
    for entry in (*_installed(), *(entry for folder in folders for entry in folder_entries(folder))):
        if entry.kind != kind:
            continue
        if entry.name in built_in(kind):
            raise UserError(f"{entry.file}: {kind} {entry.name} is named like a built-in {kind}; rename it")
        held = found.setdefault(entry.name, entry)
        if held.file != entry.file:
            raise UserError(f"{kind} {entry.name} is in {held.file} and in {entry.file}; rename one of them")
    return found


def own_targets() -> list[str]:
    """Return the targets of kernels and likelihoods in the user's folders and in installed packages."""
    return [entry.target for kind in ("kernel", "likelihood") for entry in own_entries(kind).values()]


def folder_entries(folder: str | Path) -> list[Entry]:
    """Return the entries in the .py files of a folder."""
    files = sorted(Path(folder).glob("*.py"))
    return [entry for file in files for entry in file_entries(file, file.stem)]


def file_entries(file: Path, module: str) -> list[Entry]:
    """Return the entries that a file declares."""
    try:
        facts = file.stat()
    except OSError:
        return []
    return list(_parsed(file, module, facts.st_mtime_ns, facts.st_size))


@lru_cache(maxsize=512)
def _parsed(file: Path, module: str, changed: int, size: int) -> tuple[Entry, ...]:
    """Entries of a file as it is now: `changed` and `size` tell one state of it from another."""
    try:
        source = file.read_text(encoding="utf-8")
        if not any(f"@{kind}(" in source or f".{kind}(" in source for kind in HOMES):
            return ()
        tree = ast.parse(source)
    except (OSError, ValueError, SyntaxError):
        return ()  # told of where it is imported
    found = []
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        for call in (one for one in node.decorator_list if isinstance(one, ast.Call)):
            kind = ast.unparse(call.func).rpartition(".")[2]
            names = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
            names = names if kind == "kernel" else names[:1]  # one class may be several kernels
            if kind in HOMES:
                found += [Entry(kind, str(name), f"{module}.{node.name}", file) for name in names]
    return tuple(found)


@lru_cache(maxsize=1)
def _installed() -> tuple[Entry, ...]:
    """Entries in modules of installed packages."""
    from importlib.metadata import entry_points

    found: list[Entry] = []
    for point in sorted(entry_points(group=MODULES), key=lambda point: (point.name, point.value)):
        base = place(point.value)
        files = [base / "__init__.py", base.with_suffix(".py")] if base else []
        own = [entry for file in files for entry in file_entries(file, point.value)]
        if not own:
            text = f"entry point {MODULES}: {point.name} = {point.value}"
            print(f"warning: {text} is left out: it declares no {', '.join(HOMES)}", file=sys.stderr)
        found += own
    return tuple(found)


def load(entry: Entry) -> Any:
    """Import the module of an entry and return its class or function."""
    from dgpbench.config.classes import load_class

    found = load_class(entry.kind, entry.target)
    if entry.file is None:
        return found
    module = sys.modules[entry.target.rpartition(".")[0]]
    if Path(module.__file__ or "").resolve() != entry.file.resolve():
        raise UserError(
            f"{entry.file} has the name of another module, {module.__file__}, which is found first; rename it"
        )
    return found
