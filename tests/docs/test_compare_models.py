"""The tutorial docs/compare-models.md: from a CSV file to a LaTeX table, on small data."""

import shutil

import docs_page
import pytest

SMALL = {
    "dataset=boston,energy,concrete": "dataset=heteroscedastic,bimodal",
    "budget.steps=500": "budget.steps=20",
    "budget=quick": "budget.steps=20",
}


@pytest.mark.slow
def test_from_a_file_to_a_latex_table(tmp_path):
    (tmp_path / "examples").mkdir()
    shutil.copy(docs_page.ROOT / "examples" / "wells.csv", tmp_path / "examples")
    own, several, latex, _ = docs_page.commands("compare-models.md")
    own, several, latex = (
        [SMALL.get(word, word) for word in arguments] for arguments in (own, several, latex)
    )
    own = [word.replace("sgp,dgp2", "knn,sgp") for word in own]  # the deep GP is in the second comparison
    printed = docs_page.run(own, tmp_path)
    assert printed.count("3/3") == 3 and "missing" not in printed
    table = docs_page.run([*several, "protocol.draws=50"], tmp_path)
    assert "3/3" in table and "Paired tests against linear" in table and "missing" not in table
    assert (tmp_path / "figures" / "figure-compare-dots.pdf").is_file()
    text = docs_page.run([*latex, "protocol.draws=50"], tmp_path)
    assert r"dataset & \textbf{linear} & \textbf{sgp} & \textbf{dgp2} \\" in text and "over 3 splits" in text
    found = docs_page.masked(printed + table + text)
    varying = ("boston", "energy", "concrete", "wells.csv", "sgp", "dgp", "linear:")  # by data and budget
    lines = docs_page.outputs("compare-models.md")
    shown = [line for line in lines if not line.lstrip("% ").startswith(varying)]
    assert len(shown) > 25 and not (missing := set(shown) - set(found)), missing
