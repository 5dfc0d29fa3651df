"""Every command of docs/tutorial.md is one that dgpbench understands, and its small files are there."""

import docs_page
import pytest

from dgpbench.cli import VERBS
from dgpbench.config import compose
from dgpbench.report.comparison.question import ask
from dgpbench.tuning.space import parse

COMMANDS = docs_page.commands("tutorial.md")
TASKS = 11


def test_the_tasks_take_two_commands_at_most():
    text = (docs_page.ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    tasks = text.split("\n## ")[1:]
    assert [task.split(".")[0] for task in tasks] == [str(n + 1) for n in range(TASKS)]
    for task in tasks:
        blocks = docs_page.COMMANDS.findall(task)
        assert len(blocks) <= 1 and sum(len(block.splitlines()) for block in blocks) <= 2, task[:40]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: " ".join(arguments[:2]))
def test_every_word_is_known(arguments, monkeypatch):
    monkeypatch.chdir(docs_page.ROOT)
    verb, *rest = arguments
    assert verb in VERBS
    words = [word.replace(",mine", "") for word in rest if "=" in word]
    if verb == "compare":
        question = ask(words)
        assert question.columns and question.rows and question.splits == (0, 1, 2)
        for column in question.columns:
            question.config(question.rows[0], column)
    elif verb == "tune":
        assert parse(words).names == ("inference.adam.learning_rate",)
    elif verb == "run":
        compose(words)
    for word in rest:
        path = word.rpartition("=")[2]
        assert not path.startswith("examples/") or (docs_page.ROOT / path).is_file()
