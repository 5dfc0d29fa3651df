"""Rooms of the package: few modules at its top, verbs in cli/, commands that register, no long module."""

import ast
from importlib import import_module
from pathlib import Path

from dgpbench.cli import main, registry
from dgpbench.cli.registry import VERBS, commands

PACKAGE = Path(__file__).resolve().parents[2] / "dgpbench"
MODULES = [path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts]


def test_the_top_level_has_at_most_seven_modules():
    top = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert len(top) <= 7, sorted(top)


def test_verbs_live_in_cli_which_only_commands_of_providers_import():
    shared = dict.fromkeys(("verify", "rescore", "merge", "submit", "gc"), "records")
    for verb, (module, _) in VERBS.items():
        assert module == f"dgpbench.cli.{shared.get(verb, verb.replace('-', '_'))}"
    users = [path for path in MODULES if "dgpbench.cli" in path.read_text() and path.parent.name != "cli"]
    assert {path.parent for path in users} == {PACKAGE, PACKAGE / "papers" / "commands"}
    assert [path.name for path in users if path.parent == PACKAGE] == ["__main__.py"]


def test_every_command_has_a_module_with_the_functions_of_one():
    for name, (module, about) in commands().items():
        found = import_module(module)
        assert about and callable(found.add_parser) and callable(found.main), name
    assert {"tables", "figures", "repro"} <= {*commands()} - {*VERBS}


def test_installed_packages_register_commands(monkeypatch, tmp_path, capsys):
    """A provider's command runs; one that breaks or takes a built-in name is told of and left out."""
    from importlib import metadata

    (tmp_path / "theirs_provides.py").write_text(
        'COMMANDS = {"hello": ("theirs_hello", "say hello"), "run": ("theirs_hello", "not this one")}'
    )
    (tmp_path / "theirs_hello.py").write_text(
        "def add_parser(subparsers):\n    subparsers.add_parser('hello')\n"
        "def main(args):\n    print('hello')\n    return 0\n"
    )
    group = registry.GROUP
    entries = [
        metadata.EntryPoint("broken", "no_such_module", group),
        metadata.EntryPoint("theirs", "theirs_provides", group),
    ]
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(metadata, "entry_points", lambda group: entries)
    registry._providers.cache_clear(), registry.commands.cache_clear()
    try:
        assert main(["hello"]) == 0 and capsys.readouterr().out == "hello\n"
        assert registry.commands()["run"] == VERBS["run"]
        assert main(["--help"]) == 0
        out = capsys.readouterr().out
        assert "hello" in out and "not this one" not in out
        registry._providers.cache_clear(), registry.commands.cache_clear()
        registry.commands()
        told = capsys.readouterr().err.splitlines()
        assert len(told) == 2 and "no_such_module" in told[0] and "'run'" in told[1]
    finally:
        registry._providers.cache_clear(), registry.commands.cache_clear()


def test_every_module_and_package_begins_with_what_it_is():
    silent = [path for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_no_module_is_long():
    assert [path for path in MODULES if len(path.read_text().splitlines()) > 520] == []
