"""The command and its formats: what a user reads, cites and compiles."""

import csv
import hashlib
import io
import itertools
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_units import record, units

from dgpbench.cli import main
from dgpbench.config import config_key
from dgpbench.papers import specs
from dgpbench.papers.dataset_numbers import dataset_grids
from dgpbench.papers.paper_table import load_tables
from dgpbench.papers.views import comparison, side_by_side
from dgpbench.report import terminal
from dgpbench.report.grid import number, with_error
from dgpbench.report.render import escape_latex as escape
from dgpbench.report.render import render
from dgpbench.store.reference import export
from dgpbench.store.scan import Unit

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def results(tmp_path):
    found = units("dsvi2017_sgp", "boston", [-2.2, -2.3, -2.4]) + units(
        "dsvi2017_dgp2", "boston", [-2.0, -2.1]
    )
    failed = record("dsvi2017_dgp2", "boston", 2, status="oom", reason="MemoryError: a|b <c> & _d_ 100%")
    export([*found, Unit(failed, Path("x"))], tmp_path / "reference" / "x.jsonl.gz")
    return tmp_path


def run(capsys, *words):
    assert main(["tables", *map(str, words)]) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_the_first_command_shows_ours_beside_the_published(capsys):
    out = run(capsys, "--all", "--results", ROOT / "results")
    assert "5.1" in out and "ustyuzhaninov1" in out
    line = next(x for x in out.splitlines() if x.startswith("concrete  SGP"))
    assert "3/20" in line and line.count("-3.18 (0.02)") == 2


def test_the_first_command_fits_one_screen_and_says_how_to_see_more(capsys, monkeypatch, results):
    lines = run(capsys, "--results", results).splitlines()
    assert len(lines) < 45
    s7 = next(line for line in lines if line.startswith("S7 "))
    assert s7.split()[1:4] == ["DSVI", "table", "S7"] and "2/72" in s7  # two cells have runs
    assert s7.split()[-3:] == ["0/2", "1", "1"]  # SGP of boston differs from -2.47, the other has few splits
    told = "\n".join(lines)
    assert "in all 0 of 2 compared cells are equivalent to print" in told and "dgpbench tables --all" in told
    for word in ("--compare", "--missing", "dgpbench tables S7", "dgpbench tables kin8nm"):
        assert word in told
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    narrow = run(capsys, "--results", results).splitlines()
    assert len(narrow) < 45 and max(map(len, narrow)) <= 80


def test_all_the_tables_are_printed_when_asked_for(capsys, results):
    out = run(capsys, "--all", "--results", results)
    assert "S7   " in out and "matthews6.2" in out and "runs; data of" in out  # the overview
    assert "ours against published\n" in out and "boston   SGP    3/20" in out  # each comparison
    assert out.index("boston   SGP") < out.index("Ours against published, counted")
    assert "Ours against published, counted" not in run(capsys, "--results", results)
    overview = run(capsys, "--results", results, "--format", "csv")
    assert "table,what,ours,failed,published cells,lacks" in overview  # other formats are as they were


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--all", "S7"], "--all prints every table; remove it or 'S7'"),
        (["--all", "--missing"], "remove it or '--missing'"),
        (["S7", "model=dgp2"], "'model=dgp2' filters the list of a dataset"),
        (["model=dgp2"], "'model=dgp2' filters the list of a dataset"),
        (["kin8nm", "model="], "invalid filter 'model='; use model=NAME or inference=NAME"),
        (["kin8nm", "split=3"], "invalid filter 'split=3'"),
        (["kin8nm", "model=dgp22"], "no number of kin8nm has model=dgp22; did you mean 'dgp2'?"),
        (["kin8nm", "model=dgp2", "inference=zzz"], "no number of kin8nm has inference=zzz; choose from "),
    ],
)
def test_words_that_would_be_ignored_are_refused(capsys, words, told):
    assert main(["tables", *words]) == 2
    assert told in capsys.readouterr().err


def test_table_in_the_terminal(capsys, results):
    out = run(capsys, "S7", "--results", results)
    ours = next(x for x in out.splitlines() if x.startswith("boston"))
    assert "-2.30 (0.06) 3/20" in ours and "-2.05 (0.05) 2/20, 1 failed" in ours and "– 0/20" in ours
    assert "boston, DGP 2, split 2 oom: MemoryError" in out
    assert "SGP 500: 160 in 8 cells, dgpbench sweep experiment=dsvi2017_sgp500 dataset=boston," in out
    narrow = subprocess.run(
        [
            sys.executable,
            "-c",
            "from rich.console import Console; import sys; sys.stdout.isatty = lambda: True;"
            "from dgpbench.cli import main; main(['tables', 'S7', '--results', sys.argv[1]])",
            str(results),
        ],
        env={**os.environ, "COLUMNS": "90", "PYTHONPATH": str(ROOT), "TERM": "dumb"},
        capture_output=True,
        text=True,
    )
    lines = [x for x in narrow.stdout.splitlines() if x.startswith(("boston", "naval"))]
    assert len(lines) > 4 and max(map(len, lines)) <= 90  # blocks of columns, nothing wrapped


def test_a_narrow_terminal_keeps_words_beside_their_number():
    """Provenance stood hundreds of lines below its number, as a block of columns of its own."""
    (grid,) = (g for g in dataset_grids("kin8nm", ()) if g.name == "kin8nm-log-likelihood")
    lines = list(terminal._lines(grid, 80, False))
    assert max(map(len, lines)) <= 80 and sum(line.startswith("model ") for line in lines) == 1
    assert lines[3] == "    source | estimator | protocol | remark"
    (at,) = (i for i, line in enumerate(lines) if "salimbeni2017dsvi S7" in line and "1.34" in lines[i - 1])
    assert lines[at - 1].split() == ["dgp2", "vi", "1.340", "(0.010)", "20"]
    assert lines[at] == "    salimbeni2017dsvi S7 | mixture of samples | dsvi | reading checked"
    wide = list(terminal._lines(grid, 240, False))
    assert not any(line.startswith("    ") for line in wide) and "estimator" in wide[2]


def test_missing_prints_commands_only(capsys, results):
    commands = run(capsys, "S7", "--missing", "--results", results).splitlines()
    assert len(commands) == 8 and len(set(commands)) == len(commands)  # one sweep per column
    assert all(command.startswith("dgpbench sweep experiment=dsvi2017_") for command in commands)


def test_csv_holds_every_cell_with_its_numbers(capsys, results):
    lines = list(csv.DictReader(io.StringIO(run(capsys, "S7", "--format", "csv", "--results", results))))
    assert len(lines) == 72
    cell = next(x for x in lines if (x["row"], x["column"]) == ("boston", "DGP 2"))
    assert float(cell["mean"]) == pytest.approx(-2.05) and float(cell["stderr"]) == pytest.approx(0.05)
    assert (cell["n_done"], cell["n_expected"], cell["n_failed"]) == ("2", "20", "1")
    assert float(cell["published"]) == -2.47 and "MemoryError" in cell["reason"]


def test_several_tables_are_one_csv(capsys, results):
    lines = list(
        csv.DictReader(io.StringIO(run(capsys, "S7", "S8", "--format", "csv", "--results", results)))
    )
    assert [line["table"] for line in lines] == ["S7"] * 72 + ["S8"] * 72


def test_markdown_and_html_carry_marks_and_escape_what_is_special(results):
    (table,) = load_tables(["S7"], results)
    text = render(side_by_side(table), "markdown")
    row = next(x for x in text.splitlines() if x.startswith("| boston"))
    assert row.count("|") - row.count("\\|") == 12 and "**-2.05 (0.05)** 2/20, 1 failed" in row
    page = render(comparison(table), "html")
    assert "<c>" not in page and "&lt;c&gt;" in page

    class Check(HTMLParser):
        open_tags: list = []

        def handle_starttag(self, tag, attrs):
            if tag not in ("br",):
                self.open_tags.append(tag)

        def handle_endtag(self, tag):
            assert self.open_tags.pop() == tag

    check = Check()
    check.feed(page)
    assert not check.open_tags


def test_numbers_as_the_thesis_prints_them():
    assert [number(v) for v in (-0.004, 1.005, -9.994, -64.2, float("inf"), None)] == [
        "0.00",
        "1.00",
        "-9.99",
        "-64",
        "∞",
        "–",
    ]
    assert with_error(-116.4, 17.2) == "-116 (17)" and with_error(0.5, None, ".3f") == "0.500"


@pytest.mark.slow
def test_latex_compiles(results, tmp_path):
    if not shutil.which("pdflatex"):
        pytest.skip("no pdflatex here: the LaTeX of the tables is not compiled")
    body = [render(side_by_side(table), "latex") for table in load_tables(specs.names(), results)]
    body.append(render(comparison(load_tables(["S7"], results)[0]), "latex"))
    document = "\n".join(
        [
            r"\documentclass{article}",
            r"\usepackage[utf8]{inputenc}",
            r"\usepackage{booktabs,graphicx}",
            r"\begin{document}",
            *(part + r"\clearpage" for part in body),
            r"\end{document}",
        ]
    )
    (tmp_path / "t.tex").write_text(document, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
    )
    if "booktabs.sty' not found" in done.stdout:
        pytest.skip("pdflatex has no booktabs package: the LaTeX of the tables is not compiled")
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "t.pdf").stat().st_size > 20_000


def test_latex_escapes():
    assert escape("see --variant – x") == "see -{}-variant -- x"
    assert (
        escape("a_b & 5% {x} ~ ^ \\")
        == r"a\_b \& 5\% \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{}"
    )


def test_bad_input_is_one_line_with_the_nearest_name(capsys, tmp_path):
    for words, said in (
        (["5.9"], "no table or dataset '5.9'"),
        (["kin8nn"], "no table or dataset 'kin8nn'; did you mean 'kin8nm'?"),
        (["dsvi9"], "no table or dataset 'dsvi9'; did you mean 'dsvi8'?"),
        (["S7", "--variant", "x"], "no variant 'x'"),
        (["S7", "--stats", "--against", "x"], "no column 'x'"),
        (["--results", str(tmp_path / "none")], "no results folder"),
        (["--stats"], "--stats needs a table"),
        (["S7", "--missing", "--format", "csv"], "--missing prints commands"),
        (["--renew", "page.md", "--format", "csv"], "leave --format and --config-dir out"),
        (["--renew", "page.md"], "cannot read the page page.md: No such file or directory"),
        (["S7", "leaderboard", "--compare"], "nothing is published of leaderboard; leave --compare and"),
        (
            ["leaderboard", "--variant", "rmse", "--show", "published"],
            "nothing is published of leaderboard rmse",
        ),
    ):
        assert main(["tables", *words]) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1


@pytest.mark.parametrize("verb", ["tables", "figures", "report"])
def test_help_says_that_a_named_folder_is_read_alone(capsys, verb):
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "read this folder and its reference/ alone, without the records that come with dgpbench" in shown


def test_a_results_folder_without_records_still_shows_the_published(capsys, tmp_path):
    out = run(capsys, "5.1", "--results", tmp_path)
    assert "7.45 (0.38)" in out and "-3.22 (0.07)" in out
    assert "none of these cells has been run yet" in run(capsys, "5.1", "--compare", "--results", tmp_path)


SCRIPT = """
import gzip, json, sys, time
from pathlib import Path
from dgpbench.papers import paper_table as load
from dgpbench.papers import specs
from dgpbench.papers.views import side_by_side
began = time.process_time()  # of this process: what else the machine does is not its fault
with gzip.open(Path(sys.argv[1]) / "reference" / "many.jsonl.gz", "rt") as lines:
    parsed = sum(bool(json.loads(line)) for line in lines)
floor, began = time.process_time() - began, time.process_time()
units = load.scan(Path(sys.argv[1]))
(table,) = load.tables_of([specs.load("S7")], units, Path(sys.argv[1]))
grid = side_by_side(table)
seconds = time.process_time() - began
heavy = [name for name in ("tensorflow", "gpflow", "matplotlib", "sklearn") if name in sys.modules]
print(seconds, floor, len(units), table.done, sum(len(variant.values) for variant in table.variants), heavy)
"""


def digest(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@pytest.mark.slow
def test_ten_thousand_records_are_checked_and_tabled_without_tensorflow(tmp_path):
    """8 datasets x 7 models x 20 splits, the rest variants with another M; in the time that the plain parser
    takes for some more passes (0.4 s each where a whole table took 3.7 s), however fast the machine."""
    datasets, found = specs.load("S7").rows, []
    splits = {
        "linear": (20,),
        "sgp": (20, *[22] * 11),
        "sgp500": (20,),
        "dgp2": (20, *[22] * 11),
        "dgp3": (20, *[22] * 11),
        "dgp4": (20, *[22] * 11),
        "dgp5": (20, *[22] * 11),
    }
    for name, variants in splits.items():
        base = record(f"dsvi2017_{name}", "energy", 0, {"test_loglik": -1.0, "test_rmse": 1.0})
        for (variant, count), dataset in itertools.product(enumerate(variants), datasets):
            cfg = {**base["config"], "dataset": {**base["config"]["dataset"], "name": dataset}}
            if variant:
                cfg["model"] = {**cfg["model"], "num_inducing": 30 + variant}
            facts = {"dataset": dataset, "config": cfg, "config_key": config_key(cfg, base["data_hash"])}
            for split in range(count):
                key = digest(facts["config_key"], split)
                made = base | facts | {"config": {**cfg, "split": split}, "split": split, "key": key}
                found.append(Unit(made, tmp_path))
    export(found, tmp_path / "reference" / "many.jsonl.gz")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], env=env, capture_output=True, text=True
    )
    seconds, floor, records, cells, strays, heavy = done.stdout.split(maxsplit=5)
    assert int(records) == 8 * (7 * 20 + 5 * 11 * 22) == 10_800, done.stderr
    assert (int(cells), int(strays)) == (7 * 8 * 20, 8 * 5 * 11 * 22)
    assert heavy.strip() == "[]"
    assert float(seconds) < 20 * float(floor), (seconds, floor)  # 13 measured


@pytest.mark.slow
def test_the_overview_has_begun_variants_with_experiments_of_their_own():
    """The records that come with the project have table 5.1 in 10,000 steps, and little of it in 100,000."""
    from pathlib import Path

    from dgpbench.papers.paper_table import all_tables
    from dgpbench.store.scan import scan

    results = Path(__file__).resolve().parents[2] / "results"
    tables = {(t.spec.name, *t.spec.chosen): t for t in all_tables(scan(results), results)}
    assert tables["5.1", "10k"].done >= 18 > tables["5.1",].done >= 4
    assert ("S7", "10k") not in tables and tables["S7",].done > 0
    cells = tables["5.1", "10k"].cells
    assert cells["solar", "LV-GP IWVI"].published.value == 0.07


def test_columns_of_words_begin_at_the_left_in_markdown():
    from dgpbench.report.grid import Entry, Grid, Line
    from dgpbench.report.render import markdown_table as body

    lines = [
        Line(("a",), (Entry("-2.1 (0.1)", "3/3"), Entry("DGP 2"), Entry("1,074 runs"), Entry(""))),
        Line(("b",), (Entry("failed"), Entry("linear"), Entry(""), Entry(""))),
        Line(("c",), (Entry("–", "0/3"), Entry("7"), Entry("words: none"), Entry(""))),
    ]
    grid = Grid("x", "X", "", ("row",), ("value", "model", "lacks", "empty"), tuple(lines), [], ())
    assert body(grid).splitlines()[1] == "| --- | ---: | --- | --- | ---: |"
