"""docs/reproduction.md is what the records say, and a page that cites what is not there says so."""

import sys
from pathlib import Path

import pytest

from dgpbench.errors import UserError
from dgpbench.report.document import Pages, renew_file, renewed
from dgpbench.store.scan import scan

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "report"))
from report_units import units  # noqa: E402

RENEW = "dgpbench tables --renew docs/reproduction.md"


def test_the_page_is_what_the_records_say():
    page = ROOT / "docs" / "reproduction.md"
    reference = [ROOT / "results" / name for name in ("reference", "community")]
    pages = Pages(scan(ROOT / "nothing", reference=reference), ROOT / "results")
    text = page.read_text(encoding="utf-8")
    assert renewed(text, pages) == text, f"run: {RENEW}"
    assert text.count("<!-- end -->") >= 8 and text.count(" / ") > 10


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
        "old" not in text and "| energy | SGP | 1/20 | -1.30 | -1.29 (0.02) | -0.01 | – | within 2 |" in text
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
