"""Imports point one way: each package may import those before it in ORDER, and nothing imports the papers."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "dgpbench"
ORDER = [
    *("errors", "keyed_random", "plain_text", "machine"),
    *("config", "data", "evaluate", "gp", "inference", "engine", "progress", "models", "store"),
    "trackers",
    *("experiment", "sweep", "report", "api", "tuning", "active_learning", "adapters", "cli", "papers"),
]
NUMERICS = ("gp", "inference", "engine", "models")
NOT_BELOW = {  # what a package must not import although it stands before it
    "gp": ("data", "evaluate"),
    "inference": ("data", "evaluate"),
    "engine": ("data", "evaluate"),
    "store": NUMERICS,
    "report": (*NUMERICS, "experiment"),
    "papers": (),
}
EXCEPT = {
    ("config/composition.py", "data"),  # dataset.task=auto is what the user's own file says
    ("machine.py", "config"),  # the folder that keeps the measured pace of this machine
}


def parts() -> list[str]:
    """Packages and modules at the top of dgpbench, and the file or folder of each."""
    found = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()}
    return sorted(found - {"__init__", "__main__"})


def files(part: str) -> list[Path]:
    folder = PACKAGE / part
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def imported(path: Path) -> set[str]:
    """Parts of dgpbench that a file imports anywhere, also lazily or by name, but not for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    found = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("lazy", "import_module")):
            names = [
                n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
            ]
        found |= {name.split(".")[1] for name in names if name.startswith("dgpbench.")}
    return found & {*ORDER}


def test_every_part_has_its_place_in_the_order():
    assert sorted(ORDER) == parts()


@pytest.mark.parametrize("part", ORDER)
def test_no_part_imports_one_above_it(part):
    forbidden = {*ORDER[ORDER.index(part) + 1 :], *NOT_BELOW.get(part, ())}
    wrong = {
        str(path.relative_to(PACKAGE)): found
        for path in files(part)
        if (found := sorted(imported(path) & forbidden))
    }
    assert {(path, name) for path, names in wrong.items() for name in names} <= EXCEPT


def test_the_check_finds_lazy_imports_and_imports_by_name(tmp_path):
    file = tmp_path / "module.py"
    for line in (
        "def f():\n    from dgpbench.papers.specs import load",
        "from dgpbench import papers",
        "import dgpbench.papers.specs as s",
        "m = lazy('dgpbench.papers.specs')",
        "m = importlib.import_module(f'dgpbench.papers.{name}')",
    ):
        file.write_text(line)
        assert imported(file) == {"papers"}, line
    file.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dgpbench import papers")
    assert imported(file) == set()


def test_nothing_but_the_papers_names_them():
    """Not in an import, nor as a string from which one could be made; benchmarks/ included."""
    users = [
        path
        for folder in (PACKAGE, ROOT / "benchmarks")
        for path in folder.rglob("*.py")
        if PACKAGE / "papers" not in path.parents and "dgpbench.papers" in path.read_text(encoding="utf-8")
    ]
    assert users == []


def test_the_package_imports_no_benchmarks():
    found = [
        path
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "benchmarks")
        or (isinstance(node, ast.Import) and any(a.name.split(".")[0] == "benchmarks" for a in node.names))
    ]
    assert found == []
