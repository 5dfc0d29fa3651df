"""dgpbench understands every command in the documentation, and the files that commands name exist."""

import re

import docs_page
import pytest

from dgpbench.cli.registry import commands
from dgpbench.config import compose
from dgpbench.config.tree import config_folders
from dgpbench.report.comparison.question import ask
from dgpbench.sweep.planner import axes_of
from dgpbench.tuning.search_space import parse

PAGES = sorted(path.name for path in (docs_page.ROOT / "docs").glob("*.md"))
COMMANDS = [(page, arguments) for page in PAGES for arguments in docs_page.commands(page)]


@pytest.mark.parametrize("page, arguments", COMMANDS, ids=lambda value: str(value)[:60])
def test_commands_are_understood(page, arguments, monkeypatch):
    monkeypatch.chdir(docs_page.ROOT)
    verb, *rest = arguments
    assert verb in commands()
    written = docs_page.files(page)  # a test of its own writes them and runs these commands
    if "--config-dir" in rest or any(argument.endswith(f"={name}") for argument in rest for name in written):
        return
    settings = [argument for argument in rest if re.match(r"[\w.]+=", argument)]
    if verb == "compare":
        question = ask(settings)
        assert question.columns and question.rows
        for column in question.columns:
            question.config(question.rows[0], column)
    elif verb == "tune":
        assert parse(settings).names
    elif verb in ("run", "perf"):
        compose(settings)
    elif verb in ("sweep", "active"):
        axes, _, _ = axes_of(settings, config_folders(()))
        first = {name: values[0] for name, values in axes.items()}
        for name, values in axes.items():
            for value in values:
                compose([f"{key}={chosen}" for key, chosen in (first | {name: value}).items()])
    for argument in rest:
        path = argument.rpartition("=")[2]
        assert not path.startswith("examples/") or (docs_page.ROOT / path).is_file()
