"""Commands and settings in README.md and the reference are known, and links in README.md lead somewhere."""

import csv
import re
import shlex

import docs_page
import pytest

from dgpbench.cli.registry import commands
from dgpbench.config import compose
from dgpbench.config.tree import config_folders, options
from dgpbench.sweep.planner import axes_of

README = (docs_page.ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    "README.md": README,
    "commands.md": (docs_page.ROOT / "docs/commands.md").read_text(encoding="utf-8"),
}
SETTINGS = (docs_page.ROOT / "docs/settings.md").read_text(encoding="utf-8")
LINES = re.findall(r"^    dgpbench ([\w-]+)(.*)$", "\n".join(PAGES.values()), re.M)
ROW = re.compile(r"^\| (`[^|]*=[^|]*`.*?) \|", re.M)


def words_of(rest: str) -> list[str]:
    """Settings on a command line, without those of files that a reader would have."""
    words = shlex.split(rest, comments=True)
    return [word.replace(",mine", "") for word in words if re.match(r"[\w.]+=", word) and "log(" not in word]


def test_readme_begins_with_what_a_newcomer_types():
    assert "\n    make run " in README and "\n    make test " in README and len(README.splitlines()) <= 160


@pytest.mark.parametrize("verb, rest", LINES, ids=lambda text: text.strip()[:60])
def test_every_word_is_known(verb, rest):
    assert verb in commands()
    if verb in ("run", "perf"):
        compose(words_of(rest))
    elif verb in ("sweep", "compare", "active"):
        axes, _, _ = axes_of(words_of(rest), config_folders(()))
        for name, values in axes.items():
            for value in values:
                compose([f"{name}={value}"])


@pytest.mark.parametrize("cell", ROW.findall(SETTINGS))
def test_the_settings_most_used_compose(cell):
    for text in re.findall(r"`([^`]*=[^`]*)`", cell):
        compose(text.split())


def test_every_command_is_on_the_page_of_commands():
    assert set(commands()) - {verb for verb, _ in LINES} <= {"worker", "completion"}


def test_numbers_in_the_readme_are_current():
    """Names of options, `csv` and `openml` apart, and lines of the files of published results."""
    folder = docs_page.ROOT / "dgpbench" / "papers"
    lines = sum(
        len(list(csv.DictReader((folder / name).open(encoding="utf-8"))))
        for name in ("published.csv", "beyond.csv")
    )
    for text in (
        f"{len(options('model'))} models, ",
        f"{len(options('dataset')) - 2} datasets and ",
        f"{len(options('inference'))} inference methods",
        f"next to {lines:,} published ones",
    ):
        assert text in " ".join(README.split()), text


def test_links_of_the_readme():
    for link in re.findall(r"\]\(([^)]+)\)", README):
        path, _, anchor = link.partition("#")
        text = (docs_page.ROOT / path).read_text(encoding="utf-8") if path.endswith(".md") else ""
        assert (docs_page.ROOT / path).is_file(), link
        heads = [
            re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-")
            for head in re.findall(r"^#+ (.*)$", text, re.M)
        ]
        assert not anchor or anchor in heads, link
