"""docs/compare.md does what it says: two commands from an own model to a LaTeX table, on generated data."""

import docs_page
import pytest

SMALL = {
    "dataset=boston,energy,concrete": "dataset=heteroscedastic,bimodal",
    "budget.steps=500": "budget.steps=20",
}


def small(arguments: list[str]) -> list[str]:
    words = [SMALL.get(word, word) for word in arguments]
    return [word.replace("model=linear,sgp,dgp2,mine", "model=linear,sgp,mine") for word in words]


def test_every_word_of_the_page_is_known(capsys):
    from dgpbench.report.comparison.question import ask

    for arguments in docs_page.commands("compare.md"):
        assert arguments[0] == "compare"
        words = [word for word in arguments[1:] if "=" in word and "mine" not in word]
        assert len(ask(words).rows) == 3


@pytest.mark.slow
def test_two_commands_give_the_table(tmp_path):
    docs_page.write("your_model.md", tmp_path)
    first, second = map(small, docs_page.commands("compare.md"))
    table = docs_page.run([*first, "protocol.draws=50"], tmp_path)
    assert "3/3" in table and "Paired tests against linear" in table and "missing" not in table
    assert (tmp_path / "figures" / "figure-compare-dots.pdf").is_file()
    text = docs_page.run([*second, "protocol.draws=50"], tmp_path)
    assert r"dataset & \textbf{linear} & \textbf{sgp} & \textbf{mine} \\" in text and "over 3 splits" in text
