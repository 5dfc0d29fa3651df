"""Prediction asks a GP at the inputs once for all samples; the numbers are those of asking it for each."""

import numpy as np
import pytest
import tensorflow as tf

from dgpbench.config import compose
from dgpbench.gp import start
from dgpbench.gp.deep_gp import propagate
from dgpbench.inference.bounds import VI
from dgpbench.models import prediction
from dgpbench.models.base import create


def each_sample(bound, prepared, X, noise, w, repeat):
    return propagate(bound.model, prepared, tf.tile(X, (1, repeat)), noise, w)


CASES = [("[gp,gp,gp]", "null"), ("[gp,gp]", "2"), ("[lv,gp,gp]", "2"), ("[gp,lv,gp]", "null")]


@pytest.mark.parametrize(("layers", "mixed"), CASES)
def test_the_samples_are_those_of_every_column_by_itself(layers, mixed, monkeypatch):
    random = np.random.RandomState(0)
    X, Y = random.randn(30, 3), random.randn(30, 1)
    words = [f"model.layers={layers}", f"model.inner_gps={mixed}", "model.num_inducing=6", "dataset=arm8"]
    cfg = compose([*words, "inference=vi", "threads=1"])
    _, values, _, _ = start.build(cfg, X, Y, 0, 30)
    for name, value in values.items():
        if name.endswith(("q_mu", "q_sqrt")):
            values[name] = np.tril(value + 0.3 * random.randn(*value.shape)) if value.ndim == 3 else (
                value + random.randn(*value.shape))  # fmt: skip
    model = create(cfg)
    model.load_parameters(values | {"jitter": 1e-6})
    ours = model.predict(X, 7, 5)
    prediction._compiled_predict.cache_clear()
    monkeypatch.setattr(VI, "moments", each_sample)
    theirs = model.predict(X, 7, 5)
    prediction._compiled_predict.cache_clear()
    assert ours.mean.std(0).min() > 1e-3  # samples differ
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(ours.var, theirs.var, rtol=0, atol=1e-10)
