"""The reference is complete: an entry of the right length for every name; generated parts from the code."""

import re
import sys
from pathlib import Path

import pytest

from dgpbench.cli.registry import commands
from dgpbench.config.kernel_names import names as kernel_names
from dgpbench.config.tree import main_fields, options
from dgpbench.data.catalogue import catalogue
from dgpbench.evaluate.metric_table import known_metrics

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / ".ci"))
import reference  # noqa: E402

ENTRY = re.compile(r"^### (.+?)\n(.*?)(?=^#|\Z)", re.M | re.S)
PAGES = {
    "models": (set(options("model")), 60, 150),
    "inference": (set(options("inference")), 60, 150),
    "kernels": (set(kernel_names()), 60, 150),
    "likelihoods": (set(options("likelihood")), 60, 150),
    "metrics": (set(known_metrics(())), 20, 100),
}


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_every_name_has_one_entry_of_the_right_length(name):
    wanted, least, most = PAGES[name]
    entries = [(re.findall(r"`(\w+)`", head), len(text.split())) for head, text in ENTRY.findall(page(name))]
    found = [one for names, _ in entries for one in names]
    assert len(found) == len(set(found)) and set(found) == wanted
    assert not [(names, words) for names, words in entries if not least <= words <= most]


@pytest.mark.parametrize("name", ["commands", "settings", "datasets", "metrics"])
def test_a_page_names_its_generated_part(name):
    shown = reference.on_page_markdown(page(name))
    assert reference.PARTS[name]() in shown and "<!-- generated" not in shown


def test_generated_parts_are_complete():
    text = reference.command_part()
    assert all(f"## `dgpbench {verb}`\n" in text for verb in commands())
    assert "### `dgpbench data fetch`" in text and "| `--dry-run` |" in text and "%(" not in text
    text = reference.setting_part()
    assert all(f"| `{name}` | `" in text for name, _, _ in main_fields())
    assert "| `inference.alpha` | `0.5` |" in text and "a number above 0 and at most 1" in text
    text = reference.dataset_part()
    assert all(f"| `{name}` | " in text for name in catalogue())
    assert all(f"- `{one.name}`: " in text for one in catalogue().values() if one.traps)
    text = reference.metric_part()
    assert all(f"| `{name}` | " in text for name in known_metrics(()))
    assert "| `test_brier` | Brier score | – | lower | binary, multiclass |" in text


def test_cells_with_special_characters_stay_cells():
    assert reference.table(("a",), [("x|y",)]).endswith("| x\\|y |")
    assert reference.plain("dgp* of\n  <b>") == "dgp\\* of \\<b\\>"


def test_the_tests_that_the_security_page_names_exist():
    text = page("security")
    files = re.findall(r"`(tests/[\w/]+)(?:\.py)?`", text)
    assert len(files) > 5 and all((ROOT / f).is_dir() or (ROOT / f"{f}.py").is_file() for f in files)
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 10 and named <= defined


def test_the_written_documentation_stays_below_thirty_thousand_words():
    """Code blocks, comments and the generated pages of results/ are not counted."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    text = re.sub(r"```.*?```|<!--.*?-->|^    .*?$", "", text, flags=re.M | re.S)
    assert len([word for word in text.split() if re.search(r"\w", word)]) < 30_000


def test_pages_that_the_program_names_exist():
    files = [
        *(ROOT / "dgpbench").rglob("*.py"),
        *(ROOT / "dgpbench").rglob("*.yaml"),
        *(ROOT / "conf").rglob("*.yaml"),
    ]
    named = {
        page
        for file in files
        for page in re.findall(r"(?:docs|notes)/[\w.-]+\.md", file.read_text(encoding="utf-8"))
    }
    assert len(named) > 5 and not [page for page in named if not (ROOT / page).is_file()]
