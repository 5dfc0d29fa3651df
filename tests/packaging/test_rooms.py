"""Rooms of the package: few modules at its top, verbs in cli/, every package explained, no long module."""

import ast
from pathlib import Path

from dgpbench.cli import VERBS

PACKAGE = Path(__file__).resolve().parents[2] / "dgpbench"
MODULES = [path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts]


def test_the_top_level_has_at_most_six_modules():
    top = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert len(top) <= 6, sorted(top)


def test_verbs_live_in_cli_and_nothing_else_imports_it():
    assert all(module == f"dgpbench.cli.{verb}" for verb, (module, _) in VERBS.items())
    users = [path for path in MODULES if "dgpbench.cli" in path.read_text() and path.parent.name != "cli"]
    assert users == [PACKAGE / "__main__.py"]


def test_every_module_and_package_begins_with_what_it_is():
    silent = [path for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_no_module_is_long():
    assert [path for path in MODULES if len(path.read_text().splitlines()) > 500] == []
