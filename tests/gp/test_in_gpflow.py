"""Kernels and likelihoods in GPflow's classes: the same numbers, the same values back, refusals by name."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from dgpbench.config.kernel_names import families
from dgpbench.errors import UserError
from dgpbench.gp.kernels import parse
from dgpbench.gp.kernels.in_gpflow import ALL, from_gpflow, to_gpflow, values_of
from dgpbench.gp.likelihoods import LIKELIHOODS, in_gpflow

D = 3
COMPOSED = [
    "rbf+rbf+white",
    "/rbf+linear/*periodic@0@2+white",
    "/rbf@1+linear/@0@2*polynomial5",
    "rbf@0:2*rbf",
]
TEXTS = [*(name for name in ALL if name != "white"), *COMPOSED]


def random_values(kernel):
    rng = np.random.RandomState(0)
    initial = kernel.initial(1.7, 0.8, 0.2).items()
    return {name: v * np.exp(0.3 * rng.randn(*np.shape(v))) for name, v in initial}


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_kernels_there_and_back(text, ard):
    kernel = parse(text, D, ard)
    values = random_values(kernel)
    X, X2 = np.random.RandomState(1).randn(5, D), np.random.RandomState(2).randn(4, D)
    theirs = to_gpflow(kernel, values)
    prepared = kernel.prepare({name: tf.constant(v) for name, v in values.items()}, tf.constant(X))
    assert np.allclose(kernel.gram(prepared), theirs(X), rtol=1e-7, atol=1e-7)
    assert np.allclose(kernel.cross(prepared, tf.constant(X2.T)), theirs(X, X2), rtol=1e-10, atol=1e-10)
    assert np.allclose(kernel.diagonal(prepared, tf.constant(X2.T)), theirs(X2, full_cov=False), rtol=1e-10)

    back, again = from_gpflow(theirs, D)
    assert back.names == tuple(name.replace("polynomial2", "polynomial") for name in kernel.names)
    assert np.allclose(to_gpflow(back, again)(X, X2), theirs(X, X2), rtol=1e-12)
    again = values_of(kernel, theirs)
    assert again.keys() == values.keys()
    assert all(again[n].shape == v.shape and np.allclose(again[n], v, rtol=1e-12) for n, v in values.items())


@pytest.mark.parametrize("name", [name for name in families() if name not in ALL])
def test_kernels_that_gpflow_lacks_are_refused_by_name(name):
    kernel = parse(f"rbf+{name}@0", D)
    with pytest.raises(UserError, match=f"GPflow has no kernel {name}; it has rbf, "):
        to_gpflow(kernel, kernel.initial(1.0, 1.0, 1.0))


def test_kernels_that_only_gpflow_has_are_refused_by_name():
    k = gpflow.kernels
    with pytest.raises(UserError, match="GPflow's kernel Coregion is none of rbf, "):
        from_gpflow(k.SquaredExponential() + k.Coregion(2, 1), D)
    with pytest.raises(UserError, match="Periodic is none of"):
        from_gpflow(k.Periodic(k.Matern32()), D)
    with pytest.raises(UserError, match=r"GPflow's kernel rbf\*white is no kernel: white is noise"):
        from_gpflow(k.SquaredExponential() * k.White(), D)


def test_one_period_for_all_inputs_beside_a_lengthscale_for_each():
    k = gpflow.kernels
    theirs = k.Periodic(k.SquaredExponential(lengthscales=[0.5, 1.0, 2.0]), period=1.5)
    kernel, values = from_gpflow(theirs, D)
    assert np.allclose(values["periodic/period"], [1.5, 1.5, 1.5])
    X = np.random.RandomState(1).randn(5, D)
    assert np.allclose(to_gpflow(kernel, values)(X), theirs(X), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name, kind in LIKELIHOODS.items() if kind.in_gpflow()])
@pytest.mark.parametrize("epsilon", [1e-3, 0.02])
def test_expectations_of_likelihoods_are_those_of_gpflow(name, epsilon):
    likelihood = LIKELIHOODS[name](**{"epsilon": epsilon} if name in ("bernoulli", "robustmax") else {})
    values = {key: v * 1.3 for key, v in likelihood.initial().items()}
    rng = np.random.RandomState(0)
    gps = likelihood.gps(1)
    mean, var = rng.randn(6, gps), 0.5 + rng.rand(6, gps)
    Y = {"beta": rng.rand(6, 1), "gamma": 0.1 + rng.rand(6, 1)}.get(name, np.arange(6.0)[:, None] % 2)
    p = {key: tf.constant(v) for key, v in values.items()}
    ours = likelihood.variational_expectations(p, *(tf.constant(a.T) for a in (mean, var, Y)))
    theirs = in_gpflow(likelihood, values).variational_expectations(np.zeros((6, 1)), mean, var, Y)
    assert np.allclose(ours, theirs, rtol=1e-8)


@pytest.mark.parametrize("name", ["softmax", "ordinal"])
def test_likelihoods_without_a_counterpart_are_refused_by_name(name):
    likelihood = LIKELIHOODS[name]()
    with pytest.raises(UserError, match=f"likelihood {name} has no exact counterpart in GPflow; use one of"):
        in_gpflow(likelihood, likelihood.initial())
