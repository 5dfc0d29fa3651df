"""Figures of layer functions: from runs with their parameters, and what is said where there are none."""

import numpy as np
import pytest
from report_units import unit

from dgpbench.cli import main
from dgpbench.config import compose
from dgpbench.experiment import run_unit
from dgpbench.papers import figures
from dgpbench.report.charts import Nothing
from dgpbench.store.scan import scan


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A trial of the mean field and one of the joint Gaussian, hardly trained."""
    folder = tmp_path_factory.mktemp("runs")
    paths = [f"paths.results={folder / 'results'}", f"paths.datasets={folder / 'datasets'}"]
    short = ["budget.steps=3", "protocol.draws=5", "protocol.test_samples=5", "engine.xla=false", "threads=1"]
    for name, split in (("sine_dsvi", 1), ("sine_joint", 0)):
        run_unit(compose([f"experiment=ustyuzhaninov_{name}", f"split={split}", *short, *paths]))
    return folder


@pytest.mark.slow
def test_functions_of_runs(runs, capsys):
    """Deviating runs are not those of the paper's figure, so they are chosen by hand."""
    units = scan(runs / "results")
    assert {"elbo", "elbo_se", "var_f1_at_0", "var_f3_at_0"} <= units[0].record["metrics"].keys()
    with pytest.raises(
        Nothing, match="not the experiment's .budget.steps=3.*dgpbench figures ustyuzhaninovE1 experiment="
    ):
        figures.make(figures.find("ustyuzhaninovE1"), units)
    picture = figures.make(figures.find("ustyuzhaninovE1"), units, ["dataset=sine"])
    data = picture.data
    assert list(dict.fromkeys(data.panel)) == ["f1", "f2", "f3", "composition"]
    assert data.groupby("experiment").trial.first().tolist() == [1, 0]
    assert data[data.panel == "f1"].groupby(["experiment", "draw"]).ngroups == 20
    whole = data[data.panel == "composition"]
    assert whole.input.min() == -1.0 and whole.input.max() == 1.0 and np.isfinite(data.output).all()
    assert picture.image()[:4] == b"\x89PNG"
    out = str(runs / "drawn")
    assert main(["figures", "layers", "inference=joint", "-o", out, "--results", str(runs / "results")]) == 0
    (drawn,) = (runs / "drawn").glob("figure-layers-*.png")
    assert drawn.read_bytes()[:4] == b"\x89PNG"


def test_layers_of_nothing(tmp_path, capsys):
    (tmp_path / "results").mkdir()
    assert main(["figures", "layers", "--results", str(tmp_path / "results")]) == 2
    assert "name the runs" in capsys.readouterr().err


def test_runs_that_deviate_are_not_drawn_as_the_experiment_and_that_is_said():
    own = unit("ustyuzhaninov_identity_dsvi", "identity", 0, {}, overrides=("budget.steps=5",))
    with pytest.raises(
        Nothing, match=r"not the experiment's \(budget.steps=5\); .* figures ustyuzhaninovE4 exp"
    ):
        figures.make(figures.find("ustyuzhaninovE4"), [own], [])
