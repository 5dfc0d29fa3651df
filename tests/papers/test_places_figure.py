"""The heat maps of places: their numbers, from models whose density is known."""

from types import SimpleNamespace

import numpy as np
import pytest
from report_units import bare_record
from scipy.stats import multivariate_normal

from dgpbench.data import Split, city
from dgpbench.errors import UserError
from dgpbench.evaluate.predictive import Predictive
from dgpbench.papers import figures
from dgpbench.papers.figures import fitted_figures as fitted
from dgpbench.report.charts import Nothing


def unit(name, kl):
    metrics, config = {"test_kl_to_truth": kl}, {"dataset": {"noise": 1.0}}
    record = bare_record(experiment=f"taxi_{name}", dataset="city", metrics=metrics, config=config)
    return SimpleNamespace(record=record)


class Known:
    """Two equally likely Gaussians around the scaled pick-up, or weighted ones."""

    def __init__(self, weights=None):
        self.weights = weights

    def predict(self, X, samples, seed):
        mean = np.stack([X[:, :2], X[:, :2] + 1.0])
        log_weights = None if self.weights is None else np.log(self.weights)[:, None]
        return Predictive(mean=mean, var=np.full_like(mean, 0.3), log_weights=log_weights)


def split():
    X, Y = city.draw(np.random.RandomState(0), 200, 1.0)
    return Split.from_arrays(X, Y)


@pytest.mark.parametrize("weights", [None, (0.8, 0.2)])
def test_densities_are_in_original_units(weights):
    s, x = split(), fitted.condition("Saturday, 20:00")
    at = np.array([[0.0, 0.5], [1.0, -1.0], [0.3, 0.1]])
    got = fitted.model_density(Known(weights), s, x, at)
    scaled = (x - s.x_mean) / s.x_std
    p = np.zeros(3)
    for share, shift in zip(weights or (0.5, 0.5), (0.0, 1.0), strict=True):
        mean = (scaled[0, :2] + shift) * s.y_std + s.y_mean
        p += share * multivariate_normal(mean, np.diag(0.3 * s.y_std**2)).pdf(at)
    assert np.allclose(got, np.log(p))


def test_the_truth_stands_first_and_sums_to_one(monkeypatch):
    monkeypatch.setattr(fitted, "model_and_split", lambda unit: (Known(), split()))
    units = [unit("gp", 2.0), unit("cde", 1.0), unit("kde", 3.0), unit("mdn1", 4.0), unit("cde", 1.5)]
    picture = fitted.places_picture(figures.find("4.4"), units)
    assert list(dict.fromkeys(picture.data.density)) == ["truth", "cde", "gp", "kde"]
    cell = np.prod(np.diff(fitted.BOX, axis=1) / (fitted.PLACES_SIDE - 1))
    for _, part in picture.data[picture.data.density == "truth"].groupby("condition"):
        assert np.exp(part.log_density).sum() * cell == pytest.approx(1.0, abs=0.01)
    assert picture.image("png", dpi=40)[:4] == b"\x89PNG"


def test_without_parameters_it_says_so(monkeypatch):
    def none(unit):
        raise UserError("no parameters beside it")

    monkeypatch.setattr(fitted, "model_and_split", none)
    with pytest.raises(Nothing, match="no run on the city"):
        fitted.places_picture(figures.find("4.4"), [])
    with pytest.raises(Nothing, match="no parameters beside it; records of results/reference come without"):
        fitted.places_picture(figures.find("4.4"), [unit("cde", 1.0)])
