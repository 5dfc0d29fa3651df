"""Samples of a step against memory: the message says how many fit, and those that it names do."""

import numpy as np
import pytest

from dgpbench.config import compose
from dgpbench.engine import spec
from dgpbench.errors import UserError
from dgpbench.models.gp import GPModel


class Rows:
    """As much of a split as the start of a model needs."""

    X_train, Y_train = np.random.RandomState(0).randn(50, 2), np.zeros((50, 1))
    n_train, dim, task, n_classes, outputs, bin_size = 50, 2, "regression", 0, 1, 1.0


@pytest.mark.parametrize("method", ["dsvi", "locations", "joint"])
def test_more_samples_than_memory_allows(method, monkeypatch):
    words = ["model=dgp2", "model.num_inducing=10", f"inference={method}", "precision=float64", "threads=1"]
    each = spec.sample_bytes(_bound(words), 50)
    assert each > 8 * 50 * (2 + 2 + 1)  # noise, inputs and targets at least
    monkeypatch.setattr(spec, "available", lambda: 7 * each + 1)
    with pytest.raises(UserError, match="at most 7 fit") as error:
        _bound([*words, "inference.samples=8"])
    assert "\n" not in str(error.value)
    assert _bound([*words, "inference.samples=7"]).samples == 7


def _bound(words):
    model = GPModel(compose(words))
    model.start(Rows(), 0)
    return model.bound


def test_drawn_inducing_outputs_count():
    """Of two layers of width 2 and 1: three M x M roots for each draw, none where q is not drawn."""
    words = ["model=dgp2", "model.num_inducing=10", "precision=float64", "threads=1"]
    assert _bound([*words, "inference=locations"]).drawn_numbers == 300
    assert _bound([*words, "inference=dsvi"]).drawn_numbers == 0


def test_arrays_of_the_joint_gaussian_count():
    """Two hidden GPs, M = 10: a^T R has 2 + 1 blocks of 10 numbers, or 2 without covariances; a^T C 20."""
    words = ["model=dgp2", "model.num_inducing=10", "precision=float64", "threads=1"]
    assert _bound([*words, "inference=joint"]).column_numbers == (30 + 20) // 2
    assert _bound([*words, "inference=star"]).column_numbers == (20 + 20) // 2
    assert _bound([*words, "inference=joint", "inference.estimator=sampled"]).column_numbers == 0
