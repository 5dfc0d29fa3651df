"""The report page as text; tests/browser looks at it in a real browser."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from report_units import plain_unit, record, units, write
from scipy.stats import norm

from dgpbench.cli import main
from dgpbench.report.charts.run_charts import run_panels
from dgpbench.report.charts.vega import panel_html
from dgpbench.report.comparison.methods import methods
from dgpbench.report.page.frame import Links, vega
from dgpbench.report.page.method_board import board
from dgpbench.report.page.run_pages import run_page
from dgpbench.store.reference import export
from dgpbench.store.scan import scan
from dgpbench.store.write import write_unit

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
from dgpbench.cli import main
print(main(sys.argv[1:]), [name for name in ("tensorflow", "gpflow") if name in sys.modules], file=sys.stderr)
"""
VOID = ("meta", "br", "img", "link", "input")


class Page(HTMLParser):
    """Tags must nest; collects attributes and text by section."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.found: list[tuple[str, dict]] = []
        self.feed(text)
        assert not self.stack

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag, (tag, self.getpos())


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    """The folder of a report."""
    folder = tmp_path_factory.mktemp("page")
    results = folder / "results"
    export(units("dsvi2017_sgp", "boston", [-2.2, -2.4]), results / "reference" / "x.jsonl.gz")
    write(
        results,
        record("dsvi2017_dgp2", "boston", 0, status="oom", reason='needs 99 GB <script>alert("x")</script>'),
    )
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        "report",
        "--all",
        "--results",
        str(results),
        "-o",
        str(folder / "deep" / "out"),
    ]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.stderr.splitlines()[-1] == "0 []", done.stderr  # without TensorFlow
    return folder / "deep" / "out"


@pytest.fixture(scope="module")
def text(out) -> str:
    return (out / "index.html").read_text(encoding="utf-8")


def test_it_is_one_file_that_loads_nothing(text):
    page = Page(text)
    assert "default-src 'none'" in text
    for tag, attributes in page.found:
        assert tag not in ("link", "iframe", "object")
        assert tag != "script" or attributes in ({}, {"type": "application/json"})
        assert attributes.get("src", "data:").startswith("data:")
        assert attributes.get("href", "#").startswith(("#", "runs/"))
    assert vega() in text and not re.findall(r"https?://|@import|url\(", text.replace(vega(), ""))


def test_only_the_scripts_of_the_page_may_run(text):
    (policy,) = re.findall(r"script-src ([^;\"]*)", text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert policy.split() == [f"'sha256-{found}'" for found in hashes] and len(hashes) == 2


def test_what_a_cell_tells_is_escaped_and_linked_from_the_pages_folder(text):
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text
    cells = [attributes for tag, attributes in Page(text).found if tag == "td" and "data-links" in attributes]
    assert {"../../results/reference/x.jsonl.gz"} < {cell["data-links"] for cell in cells}
    failed = next(cell for cell in cells if "failed" in cell.get("class", ""))
    assert failed["data-detail"].startswith('split 0 oom: needs 99 GB <script>alert("x")</script>')
    assert re.fullmatch(
        r"\.\./\.\./results/boston/dgp2-dsvi/dsvi2017/split0-\w{8}/record\.json", failed["data-links"]
    )


def test_sections_tables_and_sources(text):
    page = Page(text)
    ids = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {"runs", "single", "papers", "t-S7", "figure-2.4", "provenance", "table-5.1"} <= set(ids)
    order = [text.index(f'id="{name}"') for name in ("runs", "single", "papers", "provenance")]
    assert order == sorted(order)
    folded = {a["id"]: "open" not in a for tag, a in page.found if a.get("class") == "paper"}
    assert not folded["t-S7"] and folded["t-5.1"]  # open where the user has a run
    assert text.index('id="t-S7"') < text.index('id="figure-2.4"') < text.index('id="t-S8"')
    assert "-2.30 (0.10)" in text and "7.45 (0.38)" in text and "ICML 2019" in text
    assert "no finished run with experiment=natgrad_fixed*" in text


def test_neither_tables_nor_figures_import_tensorflow(tmp_path):
    script = (
        "import sys; from dgpbench.cli import main\n"
        "assert main(['tables', 'S7', '--stats']) == 0\n"
        "assert 'matplotlib' not in sys.modules\n"
        f"assert main(['figures', 'ranks-S7', '-o', {str(tmp_path)!r}]) == 0\n"
        "print([name for name in ('tensorflow', 'gpflow', 'keras') if name in sys.modules], file=sys.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]", done.stderr


def own_runs():
    words = ["model=sgp", "budget.steps=50"]
    trace = [[1, 0.1, -50.0], [25, 0.6, -20.0], [50, 1.0, -10.0]]
    fields = {"training": {"seconds": 1.0, "trace": trace}, "details": {"pit_histogram": [0.1] * 10}}
    found = [
        plain_unit(words, "energy", s, {"test_loglik": v, "test_rmse": 1.0 + s}, **fields)
        for s, v in enumerate([-1.0, -1.2])
    ]
    failed = plain_unit(
        ["model=dgp2"], "energy", 0, status="failed", reason="RuntimeError: <no> luck (m.py, line 3)"
    )
    failed.record["details"]["traceback"] = "Traceback <deep>"
    words = ["model=dgp3", "protocol.validation=0.1", "protocol.evaluate=validation"]
    trial = plain_unit(words, "energy", 0, {"valid_loglik": 3.0})
    return [*found, failed, trial]


def test_leaderboard_holds_every_metric_and_no_trial():
    found = methods(own_runs())
    assert [(m.model, m.settings) for m in found] == [("dgp2", ""), ("sgp", "budget.steps=50")]
    text = board(found, Links(Path("out")))
    cell = next(
        a for tag, a in Page(text).found if tag == "td" and "test_loglik" in a.get("data-numbers", "")
    )
    numbers = json.loads(cell["data-numbers"])
    assert numbers["test_loglik"] == pytest.approx([-1.1, 0.1, 2]) and numbers["test_rmse"][0] == 1.5
    failed = next(a for tag, a in Page(text).found if a.get("data-failed") == "1")
    assert "split 0 failed: RuntimeError: <no> luck" in failed["data-detail"]
    options = {a["value"]: a.get("data-better") for tag, a in Page(text).found if tag == "option"}
    assert options["test_loglik"] == "higher" and options["test_rmse"] == "lower" and options["clean"] is None


def test_page_of_a_run_tells_how_to_repeat_it():
    done, _, failed, _ = own_runs()
    text = run_page(done)
    assert Page(text) and "dgpbench run dataset=energy model=sgp budget.steps=50 split=0" in text
    assert "<code>budget.steps=50</code>" in text and text.count('class="plot"') == 2  # PIT and training
    assert "training 1 s" in text and "/" + "root" not in text and "config_dirs" not in text
    text = run_page(failed)
    assert Page(text) and "failed: RuntimeError: &lt;no&gt; luck (m.py, line 3)" in text
    assert "Traceback &lt;deep&gt;" in text and "None: every setting is the default" in text


def test_charts_of_predictions_and_classes(tmp_path):
    rng = np.random.default_rng(0)
    mean = rng.normal(size=50)
    y = mean + 0.1 * rng.normal(size=50)
    quantiles = {f"q{100 * p:02.0f}": mean + 0.1 * norm.ppf(p) for p in (0.05, 0.25, 0.75, 0.95)}
    table = {"row": np.arange(50), "y": y, "mean": mean, "pit": norm.cdf((y - mean) / 0.1), **quantiles}
    made = plain_unit(["model=sgp"], "energy", 0, {"test_loglik": 0.0}).record
    found, why = run_panels(write_unit(tmp_path, made, predictions=table))
    drawn = [panel for _, panel in found]
    inside = np.mean((y >= quantiles["q05"]) & (y <= quantiles["q95"]))
    assert len(drawn) == 3 and why == "" and f"{100 * inside:.0f} % of 50 inside 90 %" in drawn[1].title
    points = drawn[0].rows
    assert np.allclose([p["x"] for p in points], mean, rtol=1e-4)
    assert np.allclose([p["y"] for p in points], y, rtol=1e-4)
    heights = [row["y"] for row in drawn[2].rows]
    shares = np.histogram(table["pit"], 5, (0, 1))[0] / 50  # a bin for ten rows
    assert np.allclose(heights, shares * 5) and len(heights) == 5
    classes = {"row": np.arange(4), "y": np.array([0, 0, 1, 1]), "predicted": np.array([0, 1, 1, 1])}
    made = plain_unit(["model=sgp"], "banana", 0, {"test_accuracy": 0.75}).record
    ((kind, chart),), _ = run_panels(write_unit(tmp_path, made, predictions=classes))
    assert kind == "predictions" and "75.0 % of 4" in chart.title
    assert all('"mark"' in panel_html(panel) for panel in [*drawn, chart])  # every number becomes JSON
    assert {(r["y"], r["x"]): r["text"] for r in chart.rows} == {
        ("0", "0"): "1",
        ("0", "1"): "1",
        ("1", "1"): "2",
    }
    (folder,) = tmp_path.glob("banana/*/*/*")
    (folder / "predictions.parquet").write_bytes(b"not the file")
    assert "not the file its record names" in run_panels(scan(tmp_path, reference=False)[0])[1]


def test_every_run_has_a_page(out, text):
    linked = set(re.findall(r'href="(runs/[0-9a-f]{12}\.html)"', text))
    assert len(linked) == 1 and {f"runs/{path.name}" for path in (out / "runs").glob("*.html")} == linked
    assert (out / "runs" / "vega.js").read_text(encoding="utf-8") == vega()
    assert "dgp2 on boston, split 0" in (out / linked.pop()).read_text(encoding="utf-8")


def test_an_impossible_folder_is_one_line(capsys):
    assert main(["report", "-o", "/proc/nowhere"]) == 2
    assert "cannot write /proc/nowhere (no such file or directory)" in capsys.readouterr().err


def test_one_run_next_to_all_shipped_records_is_quick_and_small(tmp_path):
    write(tmp_path / "results", own_runs()[0].record)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    before = os.times()
    command = [sys.executable, "-m", "dgpbench", "report"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    after = os.times()
    assert done.returncode == 0, done.stderr
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < 15.0  # of one processor; 4 when this was written, and 37 before
    (line,) = done.stdout.splitlines()
    assert re.fullmatch(r"report/index\.html \(\d+ records, 1 pages of runs, \d\.\d MB, \d+ s\)", line)
    assert "report: reading records" in done.stderr  # progress
    index = tmp_path / "report" / "index.html"
    assert index.stat().st_size < 2e6 and sum(p.stat().st_size for p in index.parent.rglob("*.*")) < 3e6
    text = index.read_text(encoding="utf-8")
    assert (
        text.index("<h2>Your runs</h2>") < text.index("<h2>Leaderboard</h2>") < text.index("<h2>Papers</h2>")
    )
    assert "Tables without your runs" in text and 'id="t-5.1"' not in text


@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
def test_an_interrupted_report_leaves_nothing_behind(tmp_path, monkeypatch, old):
    folder = tmp_path / "out"
    if old:
        folder.mkdir()
        (folder / "index.html").write_text("the last report")

    def stopped(*args):
        yield "runs/x.html", "half"
        raise KeyboardInterrupt

    monkeypatch.setattr("dgpbench.report.page.pages", stopped)
    code = main(["report", "--no-reference", "--results", str(tmp_path), "-o", str(folder), "--quiet"])
    assert code == 130
    found = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")]
    assert found == (["out", "out/index.html"] if old else [])


def test_quiet_prints_no_progress(tmp_path, capsys):
    write(tmp_path / "results", own_runs()[0].record)
    words = ["report", "--results", str(tmp_path / "results"), "-o", str(tmp_path / "out")]
    assert main([*words, "-q"]) == 0
    assert "report:" not in capsys.readouterr().err
    assert main(words) == 0
    assert "report: reading records" in capsys.readouterr().err


def test_two_models_are_compared_first(tmp_path):
    for words, values in ((["model=sgp"], (-1.0, -1.2)), (["model=linear"], (-2.0, -2.1))):
        for split, value in enumerate(values):
            made = plain_unit(words, "energy", split, {"test_loglik": value, "test_rmse": -value})
            write(tmp_path / "results", made.record)
    words = ["report", "-q", "--results", str(tmp_path / "results"), "-o", str(tmp_path / "out")]
    assert main(words) == 0
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert Page(text) and "<strong>sgp</strong>" in text and "By Test RMSE" in text
    order = [
        'class="tiles"',
        'id="test_loglik-models"',
        'id="test_loglik-scores"',
        'id="board"',
        'id="run-list"',
    ]
    places = [text.index(name) for name in order]
    assert places == sorted(places)
