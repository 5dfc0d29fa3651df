"""The tutorial docs/first-benchmark.md names what a run prints."""

import docs_page
import pytest

PAGE = "first-benchmark.md"
WARNINGS = ("warning",)  # only of some data
SMALL = ["run", "model=dgp2", "dataset=heteroscedastic", "budget.steps=20"]


@pytest.mark.slow
def test_the_page_shows_and_explains_what_a_run_prints(tmp_path):
    printed = docs_page.run(SMALL, tmp_path, notes=True) + docs_page.run(SMALL, tmp_path, notes=True)
    found, shown = docs_page.masked(printed), docs_page.outputs(PAGE)
    text = (docs_page.ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    start = shown.index("test original units standardised")
    plan, scores, again = shown[:7], shown[start : start + 9], shown[-5]
    assert again.startswith("this run is done")
    assert not {*scores, again} - {*found}
    words = [line.split()[0] for line in plan]
    assert all(f"- **{word}**" in text for word in words)
    assert {word for word in words if word not in WARNINGS} <= {line.split()[0] for line in found}
