"""The pages on reproduction are what the records say, and one that cites what is not there says so."""

import re
import sys
from pathlib import Path

import pytest

from dgpbench.cli import main
from dgpbench.errors import UserError
from dgpbench.papers.document import Pages, renew_file, renewed
from dgpbench.papers.views import published_entry
from dgpbench.store.scan import scan

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "report"))
from report_units import units  # noqa: E402

PAGES = (
    ("reproduction", 8, 50),
    ("reproduction_log", 0, 5),
    ("classification", 1, 4),
)  # blocks, cells at least


def test_the_pages_are_what_the_records_say():
    reference = [ROOT / "results" / name for name in ("reference", "community")]
    pages = Pages(scan(ROOT / "nothing", reference=reference), ROOT / "results")
    for name, blocks, cells in PAGES:
        text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        assert renewed(text, pages) == text, f"run: dgpbench tables --renew docs/{name}.md"
        assert text.count("<!-- end -->") >= blocks and len(re.findall("<!-- .+? / .+? -->", text)) >= cells


def test_blocks_and_cells_follow_the_records(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "a\n<!-- compare S7 shared -->\nold\n<!-- end -->\nhere 9.99 (9.99)<!-- S7 / energy / SGP --> over "
        "0<!-- S7 / energy / SGP / splits -->, printed 0<!-- S7 / energy / SGP / published -->\n"
    )
    found = units("dsvi2017_sgp", "energy", [-1.0, -1.1, -1.2]) + units(
        "dsvi2017_sgp_shared", "energy", [-1.3]
    )
    pages = Pages(found, tmp_path)
    assert renew_file(page, pages) and not renew_file(page, pages)
    text = page.read_text()
    assert (
        "here -1.10 (0.06)<!-- S7 / energy / SGP --> over 3<!--" in text
        and "printed -1.29 (0.02)<!--" in text
    )
    assert (
        "old" not in text
        and "| energy | SGP | 1/20 | -1.30 | -1.29 (0.02) | -0.01 | – | 0.16 | undecided (20 runs) |" in text
    )


def test_a_leaderboard_is_a_block_too(tmp_path):
    found = units(
        "dsvi2017_sgp", "energy", [-1.0, -1.2], training={"seconds": 8.0, "cpu_seconds": 2.0}, device="cpu"
    )
    found += units("dsvi2017_dgp2", "energy", [-0.5, -1.3], training={"seconds": 3.0}, device="cpu")
    text = renewed("<!-- board S7 -->\nold\n<!-- end -->\n", Pages(found, tmp_path))
    # one win each; SGP had a core for 2 of its 8 s
    assert r"| SGP (unfinished) | 1.50 \[1.00, 2.00\] | 50% \[0%, 100%\] | 0.250 | 1 | 2 | 2.0 |" in text
    assert r"| DGP 2 (unfinished) | 1.50 \[1.00, 2.00\] | 50% \[0%, 100%\] | 0.050 | 1 | 2 | 3.0 |" in text


@pytest.mark.parametrize(
    "text", ["1<!-- S7 / energy / DGP 9 -->", "1<!-- S7 / energy / SGP -->", "1<!-- S99 / a / b -->"]
)
def test_a_cell_that_is_not_there_is_named(text, tmp_path):
    with pytest.raises(UserError):
        renewed(text, Pages([], tmp_path))


SECOND = "<!-- counts -->\nold\n<!-- end -->\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "a\n<!-- compare S7 -->\nold\n\n" + SECOND,
            "line 2: <!-- compare S7 --> has no <!-- end --> before the block of line 5",
        ),
        (SECOND + "<!-- side S7 -->\nold\n", "line 4: <!-- side S7 --> has no <!-- end -->;"),
        ("a\n\n<!-- frob S7 -->\nold\n<!-- end -->\n", "line 3: no kind of block: <!-- frob S7 -->"),
        (SECOND + "text\n<!-- end -->\n", "line 5: <!-- end --> ends no block"),
        ("<!-- compare -->\nold\n<!-- end -->\n", "line 1: <!-- compare -->"),
        ("<!-- counts S7 -->\nold\n<!-- end -->\n", "line 1: <!-- counts S7 -->"),
    ],
)
def test_broken_blocks_are_refused_and_the_page_stays(text, what, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(text)
    assert main(["tables", "--renew", str(page)]) == 2
    error = capsys.readouterr().err
    assert f"{page}, {what}" in error and error.count("\n") == 1
    assert "a block is <!-- compare TABLE -->, <!-- side TABLE -->" in error
    assert page.read_text() == text


def test_lines_of_tables_and_cells_that_are_not_there_are_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n\nb 1<!-- S7 / energy / DGP 9 -->\n")
    with pytest.raises(UserError, match=r"page\.md, line 3: the page names a cell that is not there"):
        renew_file(page, Pages([], tmp_path))
    page.write_text("a\n<!-- compare S99 -->\n<!-- end -->\n")
    with pytest.raises(UserError, match=r"page\.md, line 2: .*S99"):
        renew_file(page, Pages([], tmp_path))


def test_other_comments_stay(tmp_path):
    text = "<!-- markdownlint-disable -->\ntext <!-- end of story -->\n<!-- a note -->\n"
    assert renewed(text, Pages([], tmp_path)) == text


def test_a_published_cell_is_as_the_table_prints_it(tmp_path):
    """Matthews prints 0.15 with a 2-sigma half-width of 0.03; verdicts turn it into a standard error."""
    mark = "<!-- matthews4.3 / ringnorm / KLSp M=30% / published -->"
    pages = Pages([], tmp_path)
    table = pages.table(["matthews4.3"])
    at = ("ringnorm", "KLSp M=30%")
    shown = published_entry(table.cells[at].published, False, table.cells[at].place.format).text
    assert renewed(f"0{mark}", pages) == f"{shown}{mark}" == f"0.15 (0.03){mark}"
    assert table.published(*at).error == pytest.approx(0.015)
