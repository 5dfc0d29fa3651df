"""Minibatches: every row once per epoch, the same rows however the steps are grouped."""

import numpy as np
import pytest

from dgpbench.engine import batches as module
from dgpbench.engine.batches import Batches
from dgpbench.keyed_random import permuted


@pytest.mark.parametrize("limit", [module.EXPLICIT_LIMIT, 0])
def test_an_epoch_sees_every_row_once(monkeypatch, limit):
    monkeypatch.setattr(module, "EXPLICIT_LIMIT", limit)
    batches = Batches(120, 30, seed=3)
    epochs = [batches.rows(4 * e, 4).ravel() for e in range(3)]
    for rows in epochs:
        assert sorted(rows) == list(range(120))
    assert not np.array_equal(epochs[0], epochs[1])
    assert not np.array_equal(epochs[0], Batches(120, 30, seed=4).rows(0, 4).ravel())


@pytest.mark.parametrize("limit", [module.EXPLICIT_LIMIT, 0])
def test_grouping_does_not_matter(monkeypatch, limit):
    monkeypatch.setattr(module, "EXPLICIT_LIMIT", limit)
    whole = Batches(103, 10, 0).rows(0, 25)
    parts = Batches(103, 10, 0)
    np.testing.assert_array_equal(
        whole, np.concatenate([parts.rows(0, 7), parts.rows(7, 1), parts.rows(8, 17)])
    )


def test_batch_is_capped_at_the_data():
    assert Batches(50, 10_000, 0).batch == 50
    assert Batches(50, 10_000, 0).full


@pytest.mark.parametrize("n", [2, 5, 64, 1000, 4097])
def test_permuted_is_a_permutation(n):
    images = permuted(np.arange(n), n, 7, 1)
    assert sorted(images) == list(range(n))


def test_permuted_looks_random():
    """Neighbours are torn apart: correlation of position and image stays within 4 standard errors of 0."""
    n = 20_000
    images = permuted(np.arange(n), n, 0, 0)
    assert abs(np.corrcoef(np.arange(n), images)[0, 1]) < 4 / np.sqrt(n)
    assert abs(np.corrcoef(images[:-1], images[1:])[0, 1]) < 4 / np.sqrt(n)
