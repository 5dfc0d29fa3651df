"""HTML of runs, comparisons, searches and predictions, and progress bars of notebooks."""

import sys
from html.parser import HTMLParser
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from own_files import regression, write_csv

import dgpbench
from dgpbench.api.runs import Run

EVIL = "<script>alert('x')</script>"


class Reader(HTMLParser):
    """Balanced tags only, and their text."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.texts, self.tags = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ("br", "progress"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "progress":
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "own.csv", regression())
    return dgpbench.run("dataset=csv", "dataset.path=own.csv", "dataset.target=y", "model=linear")


def test_a_run_shows_its_metrics_and_escapes_what_it_is_told(run):
    page = Reader(run._repr_html_())
    assert {"linear", "csv", "done", f"{run.metrics['test_rmse']:.4f}"} <= set(page.texts)
    assert run.key[:8] in page.texts and str(run.folder) in page.texts
    bad = Run(run.record | {"reason": EVIL, "status": "failed", "metrics": {EVIL: 1.0}}, run.path)
    page = Reader(bad._repr_html_())
    assert "script" not in page.tags and "&lt;script&gt;" in bad._repr_html_() and EVIL in page.texts


def test_tables_have_html_and_short_reprs(run):
    words = ("dataset=csv", "dataset.path=own.csv", "dataset.target=y", "model=linear", "split=0")
    found = dgpbench.compare(*words, metric="test_rmse")
    page = Reader(found._repr_html_())
    assert "table" in page.tags and "linear" in page.texts and "script" not in page.tags
    assert repr(found) == "<Compared test_rmse of linear on own.csv>"
    assert "<table" in dgpbench.results()._repr_html_()
    fitted = dgpbench.load(run)
    assert repr(fitted) == "<Fitted linear on csv>"
    assert "<table" in fitted.predict(np.ones((2, 4)))._repr_html_()
    study = dgpbench.tuning.study.Study(SimpleNamespace(names=("model.k",)), [])
    assert repr(study) == "<Study of model.k: 0 trials>" and "<table" in study._repr_html_()


class Display:
    """What IPython gives to a cell: a display that can be updated."""

    def __init__(self):
        self.shown = []

    def display(self, html, display_id):
        assert display_id is True
        self.shown.append(html)
        return SimpleNamespace(update=self.shown.append)


@pytest.fixture
def notebook(monkeypatch):
    display = Display()
    module = SimpleNamespace(display=display.display, HTML=str)
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=module))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return display


def test_training_has_a_bar_in_notebooks(notebook):
    X = np.linspace(0, 1, 20)[:, None]
    settings = {"num_inducing": 5, "steps": 4, "overrides": "engine.xla=false"}
    dgpbench.Regressor("sgp", **settings).fit(X, X[:, 0])
    assert notebook.shown == []
    dgpbench.Regressor("sgp", verbose=True, **settings).fit(X, X[:, 0])
    bars = [Reader(html) for html in notebook.shown if html]
    assert "compiling" in bars[0].texts[-1] and bars[-1].texts[-1].startswith("step 4/4  bound")
    assert 'value="1.0000"' in [html for html in notebook.shown if html][-1] and notebook.shown[-1] == ""


def test_sweeps_have_a_bar_in_notebooks(notebook, monkeypatch, capsys):
    from dgpbench.sweep import launch as watch

    plan = SimpleNamespace(units=[SimpleNamespace(config=0)] * 4, label=lambda index: EVIL)
    watcher = watch.Watcher(plan, range(4), costs=MagicMock(one=lambda index: 1.0))
    watcher.started(0, None)
    watcher.ended(0, "done", None)
    watcher._shown = -np.inf
    watcher.show(2, EVIL)
    page = Reader(notebook.shown[-1])
    assert 'value="0.2500"' in notebook.shown[-1] and "1/4 done, 2 running" in "".join(page.texts)
    assert "script" not in page.tags
    watcher.ended(1, "failed", "no luck")
    assert "no luck" in capsys.readouterr().err
    watcher.clear()
    assert notebook.shown[-1] == ""
    assert watch.Watcher(plan, range(1), quiet=True, costs=MagicMock())._bar is None
