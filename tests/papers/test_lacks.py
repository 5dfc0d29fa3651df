"""Every table and figure of the five documents is known, and says what it lacks."""

import pytest

from dgpbench.cli import main
from dgpbench.errors import UserError
from dgpbench.papers import figures, specs
from dgpbench.papers.paper_table import tables_of
from dgpbench.papers.table_overview import missing_of_table, overview
from dgpbench.report.charts import Nothing

THESIS = [f"{c}.{i}" for c, n in ((1, 4), (2, 4), (3, 8), (4, 8), (5, 7), (6, 4)) for i in range(1, n + 1)]
DSVI = ["dsvi1", "dsvi2"]
MATTHEWS = [f"matthews{c}.{i}" for c, n in ((1, 3), (2, 4), (4, 7), (5, 4), (6, 4)) for i in range(1, n + 1)]
COMPOSITIONAL = [f"ustyuzhaninov{i}" for i in (*range(1, 7), "A", "D1", *(f"E{k}" for k in range(1, 7)))]
TABLES = ["2.1", "2.2", "2.3", "2.4", "4.1", "4.2", "5.1", "5.2", "5.3", *(f"dsvi{i}" for i in range(1, 9))]
TABLES += ["matthews4.3", "matthews4.4", "matthews5.1", "ustyuzhaninov1", "S7", "S8"]


def test_every_figure_of_the_documents_is_known():
    known = figures.figure_specs()
    assert not [
        name for name in [*THESIS, *DSVI, *MATTHEWS, "matthewsB.1", *COMPOSITIONAL] if name not in known
    ]
    for name, spec in known.items():
        assert bool(spec.kind) + bool(spec.lacks) + bool(spec.same) == 1, name
        assert spec.same or spec.title, name
        assert not spec.kind or spec.kind in figures.KINDS, name
    assert figures.find("dsvi1").name == "2.4"
    with pytest.raises(Nothing, match="diagram"):
        figures.make(figures.find("1.2"), [])


def test_every_table_of_the_documents_is_known():
    assert specs.load("dsvi7").name == "S7" and specs.load("dsvi5").name == "2.3"
    timing = specs.load("dsvi4")  # repeats table 3 in the supplement
    assert timing.name == "2.4" and "as table 4 in its supplement" in timing.notes[0]
    for name in TABLES:
        assert specs.load(name).title
    for name in ("matthews4.1", "matthews4.2", "matthews6.1", "matthews6.2"):
        with pytest.raises(UserError, match="nothing to compare; it holds"):
            specs.load(name)


def test_what_tables_lack(tmp_path):
    tables = tables_of(
        [specs.load(name) for name in ("dsvi6", "2.4-mnist", "2.2", "matthews5.1")], [], tmp_path
    )
    assert [missing_of_table(table) for table in tables] == [
        "12 runs",
        "4 runs",
        "12 runs; data of airline, taxi",
        "nothing: counted, not run",
    ]
    text = str(overview(tables, tmp_path))
    assert "no experiment" not in text and "matthews6.1" in text
    published = [cell.published.value for cell in tables[0].cells.values()]
    assert published[:9] == [0.785, 0.794, 0.83, 0.837, 0.841, 0.846, 0.81, 0.816, 0.885]
    accuracies = [cell.published.value for cell in tables[1].cells.values()]
    assert accuracies == [97.48, 97.9, 98.06, 98.11, 98.1, 98.4, 94.24]


def test_the_memory_of_matthews_table_is_counted_right(tmp_path):
    M, C, S = 500, 10, 300
    triangle = lambda n: n * (n + 1) // 2  # noqa: E731
    counts = [C * (M + triangle(M)), C * M + triangle(C * M), S * C * M]
    (table,) = tables_of([specs.load("matthews5.1")], [], tmp_path)
    for count, cell in zip(counts, table.cells.values(), strict=True):
        assert f"{count:,}" in table.spec.notes[0]
        assert float(f"{count / 1e6:.2g}") == cell.published.value


def test_the_list_says_what_figures_lack(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["figures", "--list", "--no-reference"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["1.1"].endswith("four kernels")
    assert lines["2.2"].endswith("; not drawn: a diagram of the model: nothing to compute")
    assert lines["2.4"].endswith("; lacks runs of table S7")
    assert lines["5.7"].endswith("; lacks runs with dataset=pol,bike,keggdirected,houseelectric")
    assert "lacks runs with experiment=omniglot_density; data: Omniglot's two zip files" in lines["4.5"]
    assert "lacks data: the heartbeats" in lines["ustyuzhaninov6"]
    assert lines["slides-results"] == "The same as 2.4; lacks runs of table S7"


def test_figures_that_records_alone_do_not_make_are_no_complete_ones(tmp_path, capsys, monkeypatch):
    """4.7 needs parameters, Matthews' 5.1 pairs of runs: the records that come with dgpbench have neither."""
    monkeypatch.chdir(tmp_path)
    assert main(["figures", "--list"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert "runs here with experiment=ones100_*: published records come without parameters" in lines["4.7"]
    assert "lacks pairs of runs with model=sgp" in lines["matthews5.1"]
    assert lines["4.8"].endswith("100 ones")
