"""Imports point one way: numerics -> gp -> inference -> engine -> models -> experiment."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "dgpbench"
ORDER = ["errors", "config", "gp", "inference", "engine", "models", "experiment"]
ROOMS = [name for name in ORDER if (ROOT / name).is_dir()]
NOT_BELOW = {  # what each room must not import, besides everything above it
    "gp": ("data", "store", "sweep", "report", "cli", "perf", "evaluate"),
    "inference": ("data", "store", "sweep", "report", "cli", "perf", "evaluate"),
    "engine": ("data", "store", "sweep", "report", "cli", "perf"),
    "models": ("store", "sweep", "report", "cli", "perf"),
    "evaluate": ("models", "engine", "inference", "gp", "store", "sweep", "report", "cli", "perf"),
    "store": ("models", "engine", "inference", "gp", "sweep", "report", "cli", "perf"),
    "config": ("store", "sweep", "report", "cli", "perf", "evaluate"),
}


def imported(path: Path) -> set[str]:
    """Rooms of dgpbench that a file names in its imports, wherever they stand but for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    found = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy":
            names = [node.args[0].value]
        found |= {name.split(".")[1] for name in names if name.startswith("dgpbench.")}
    return found


@pytest.mark.parametrize("room", [*NOT_BELOW])
def test_no_room_imports_one_above_it(room):
    above = set(ORDER[ORDER.index(room) + 1 :]) if room in ORDER else set()
    forbidden = above | set(NOT_BELOW[room])
    wrong = {
        str(path.relative_to(ROOT)): sorted(imported(path) & forbidden)
        for path in (ROOT / room).rglob("*.py")
        if imported(path) & forbidden
    }
    assert not wrong


def test_the_rooms_are_there():
    assert ROOMS == ["config", "gp", "inference", "engine", "models"]


def test_the_top_level_is_small_and_every_package_explains_itself():
    modules = [p.stem for p in ROOT.glob("*.py") if p.stem not in ("__init__", "__main__")]
    assert len(modules) <= 6, modules
    for package in ROOT.rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8")))
        assert text and len(text) > 30, package


def test_no_module_is_too_long():
    long = {
        str(p.relative_to(ROOT)): n
        for p in ROOT.rglob("*.py")
        if (n := len(p.read_text().splitlines())) > 500
    }
    assert not long
