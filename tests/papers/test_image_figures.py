"""Runs on generated images from config to record, table cells and the figures of section 4.4."""

import numpy as np
import pytest
from report_units import unit

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.experiment import run_unit
from dgpbench.papers import figures, specs
from dgpbench.papers.figures import image_figures, record_figures
from dgpbench.report.charts import Nothing
from dgpbench.store.scan import scan
from dgpbench.store.verify import file_problems

SMALL = ["dataset=strokes_images", "engine.xla=false", "threads=1", "protocol.max_test=12"]


def _run(tmp_path, *words):
    paths = [f"paths.results={tmp_path / 'results'}", f"paths.datasets={tmp_path / 'sets'}"]
    made, _ = run_unit(compose([*words, *SMALL, *paths]))
    assert made.record["status"] == "done", made.record["reason"]
    return made


@pytest.mark.slow
def test_ones_from_run_to_figures(tmp_path):
    """A GP-LVM of one class, collapsed: its record, the means along w, the curves of training."""
    words = ["experiment=ones100_collapsed", "dataset.label=0", "dataset.per_class=15", "budget.steps=200"]
    made = _run(tmp_path, *words, "model.num_inducing=6", "inference.adam.learning_rate=0.02")
    metrics = made.record["metrics"]
    assert metrics["test_loglik_mc_se"] == 0.0 and 0.0 < metrics["likelihood_variance"] < 0.05
    assert metrics["test_loglik_per_pixel"] == pytest.approx(metrics["test_loglik"] / 64)
    assert metrics["train_loglik"] > 64 * -0.5 * np.log(2 * np.pi * 0.1)  # better than noise alone
    assert not list(file_problems(made))
    (stored,) = scan(tmp_path / "results", reference=False, traces=True)
    images = image_figures.mean_images(stored)
    assert images.shape == (11, 8, 8)
    tilt = [_tilt(image) for image in images]
    assert abs(tilt[9] - tilt[1]) > 0.1  # w turns the stroke or moves it
    picture = figures.make(figures.find("4.7"), [stored])
    assert picture.data.method.unique().tolist() == ["collapsed"] and picture.image()[:4] == b"\x89PNG"
    picture = figures.make(figures.find("4.8"), [stored])
    assert picture.data.bound.iloc[-1] > picture.data.bound.iloc[0] and picture.image()[:4] == b"\x89PNG"


def _tilt(image):
    """Sum of the correlations of ink with place across, and with place across times place up."""
    across, up = np.meshgrid(np.linspace(-1, 1, 8), -np.linspace(-1, 1, 8))
    ink = np.clip(image, 0, None)
    return (ink * across).sum() / ink.sum() + 3 * (ink * across * up).sum() / ink.sum()


@pytest.mark.slow
def test_a_projection_with_mixed_outputs_from_run_to_figure(tmp_path):
    """Bayesian A, two latent variables, P of a pixel kernel, noise held: a conditional density of images."""
    words = ["experiment=mnist_density_gp_fixed", "dataset.per_class=5", "model.projection_dim=3"]
    more = ["model.output_gps=8", "model.num_inducing=10", "budget.steps=60", "protocol.latent_samples=40"]
    made = _run(tmp_path, *words, *more, "inference.encoder=[5]")
    metrics = made.record["metrics"]
    assert metrics["likelihood_variance"] == pytest.approx(0.1)
    assert 0.0 < metrics["test_loglik_mc_se"] < 5.0
    assert metrics["test_loglik"] <= 64 * -0.5 * np.log(
        2 * np.pi * 0.1
    )  # no density with this noise is higher
    assert made.record["details"]["effective_samples"]["median"] > 3
    truth, drawn = image_figures.samples(made)
    assert truth.shape == (4, 8, 8) and drawn.shape == (4, 9, 8, 8)
    picture = figures.make(figures.find("4.5"), [made], ["dataset=strokes_images"])
    assert picture.image()[:4] == b"\x89PNG"


def _curve(method, bounds):
    trace = [[10 * i, 0.1 * i, bound] for i, bound in enumerate(bounds)]
    return unit(
        f"ones100_{method}", "mnist_images", 0, {}, training={"trace": trace, "steps": 10 * len(bounds)}
    )


def test_three_ranges_of_the_same_curves():
    units = [
        _curve("ngd", [-900, 40, 99]),
        _curve("adam", [-1000, -500, -100]),
        _curve("collapsed", [0, 90, 100]),
    ]
    picture = figures.make(figures.find("4.8"), units)
    (low, high), (later, _), (best, top) = record_figures.limits(picture.data)
    assert low == pytest.approx(-1000 - 0.05 * 1100) and high == pytest.approx(100 + 0.05 * 1100)
    assert later == pytest.approx(-100 - 0.05 * 200)
    assert 90 < best < 99 and top > 100  # the best two are told apart
    assert picture.notes == ("last bound: adam -100, collapsed 100, ngd 99",)


def test_figures_say_what_they_lack():
    with pytest.raises(Nothing, match="experiment=omniglot_density; data: Omniglot's two zip files"):
        figures.make(figures.find("4.5"), [])
    with pytest.raises(Nothing, match="has its parameters here"):
        figures.make(figures.find("4.7"), [_curve("ngd", [1.0])])
    with pytest.raises(Nothing, match="no training trace"):
        figures.make(figures.find("4.8"), [_curve("ngd", [])])


def test_table_4_2_asks_for_runs_of_so_many_images():
    spec = specs.load("4.2")
    place = spec.places["4 per class", "GP-CDE opt. variance"]
    assert place.experiment == "mnist_density_gp_opt" and place.metric == "likelihood_variance"
    cfg = compose([*place.words, f"dataset={place.dataset}"])
    assert cfg["dataset"]["per_class"] == 4 and cfg["model"]["likelihood_variance_trainable"]
    assert cfg["model"]["output_gps"] == 50 and cfg["model"]["output_mixing"] == "pixels"
    held = compose(list(spec.places["2 per class", "CVAE fixed test"].words))
    assert held["model"]["likelihood_variance_trainable"] is False and held["model"]["dropout"] == 0.1


def test_a_network_that_needs_hidden_units(tmp_path):
    with pytest.raises(UserError, match="needs hidden units"):
        _run(tmp_path, "experiment=mnist_density_cvae_opt", "model.hidden=[]")
