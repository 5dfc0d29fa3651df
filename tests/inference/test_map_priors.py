"""Priors under variational inference: the bound plus log p(log theta), by GPflow and SciPy; its effect."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from inference_tools import columns, data, gradient_gap, model_of, resumes_bitwise, tensors, trainer_of
from scipy import stats

from dgpbench.config import compose
from dgpbench.config.classes import create_method
from dgpbench.errors import UserError
from dgpbench.inference.gradients import lower_bound

PRIORS = [
    "model.priors.lengthscale=[gamma,2.0,1.5]",
    "model.priors.kernel_variance=[lognormal,0.3,0.7]",
    "model.priors.likelihood_variance=[inverse_gamma,3.0,0.5]",
]
EXACT = {  # log densities of theta
    "lengthscales": stats.gamma(2.0, scale=1 / 1.5),
    "variance": stats.lognorm(0.7, scale=np.exp(0.3)),
    "likelihood": stats.invgamma(3.0, scale=0.5),
}
SGP = ["model=sgp", "inference=dsvi", "model.num_inducing=5", "precision=float64"]
DEEP = [*SGP, "model=dgp2", "model.num_inducing=4", "model.inner_noise=0.01"]


def _bound(words, X, Y):
    cfg = compose(words)
    model, values, _ = model_of(cfg, X, Y)
    return create_method(cfg).bound(model), values


def _value(bound, values, X, Y):
    shape = max(bound.noise_dim, 1), bound.columns * len(X)
    noise = tf.constant(np.random.RandomState(0).randn(*shape))
    return float(lower_bound(bound, tensors(bound, values), *columns(X, Y), noise, num_data=3 * len(X)))


def _log_priors(values):
    """log p(log theta) by SciPy; the noise between layers has none."""
    total = 0.0
    for name, v in values.items():
        leaf = name.rpartition("/")[2]
        if name == "likelihood/variance":
            leaf = "likelihood"
        elif "/kernel/" not in name or "/white/" in name:
            continue
        total += np.sum(EXACT[leaf].logpdf(v) + np.log(v))
    return total


def test_the_bound_and_the_prior_are_those_of_gpflow():
    """SVGP with priors: GPflow's log_prior_density is of unconstrained values, here log theta."""
    X, Y = data(15, D=2)
    bound, values = _bound([*SGP, *PRIORS], X, Y)
    log, d = tfp.bijectors.Exp(), tfp.distributions
    f = lambda *numbers: [np.float64(x) for x in numbers]  # noqa: E731
    kernel, noise = gpflow.kernels.SquaredExponential(), gpflow.likelihoods.Gaussian()
    own = "layer0/kernel/rbf/"
    priors = d.Gamma(*f(2, 1.5)), d.LogNormal(*f(0.3, 0.7)), d.InverseGamma(*f(3, 0.5))
    kernel.lengthscales, kernel.variance, noise.variance = (
        gpflow.Parameter(values[name], transform=log, prior=prior)
        for name, prior in zip(
            (own + "lengthscales", own + "variance", "likelihood/variance"), priors, strict=True
        )
    )
    theirs = gpflow.models.SVGP(
        kernel,
        noise,
        values["layer0/Z"].copy(),
        q_mu=values["layer0/q_mu"].T.copy(),
        q_sqrt=values["layer0/q_sqrt"].copy(),
        num_data=3 * len(X),
    )
    scales = kernel.lengthscales, kernel.variance, noise.variance
    jacobian = sum(float(np.log(p.numpy()).sum()) for p in scales)
    with_prior = float(theirs.elbo((X, Y)) + theirs.log_prior_density()) + jacobian
    assert _value(bound, values, X, Y) == pytest.approx(with_prior, rel=1e-8)


CASES = {
    "own kernels": [*DEEP, "model.per_output=all"],
    "direct": [*DEEP, "model.whiten=false"],
    "vi": [*DEEP, "model=lv_gp_gp", "inference=vi"],
    "iwvi": [*DEEP, "model=lv_gp_gp", "inference=iwvi"],
    "optimal": [*DEEP, "model=lv_gp", "inference=optimal"],
}


@pytest.mark.parametrize("name", CASES)
def test_every_layer_has_its_prior_under_every_bound(name):
    X, Y = data(8, D=2)
    plain, values = _bound(CASES[name], X, Y)
    bound, _ = _bound([*CASES[name], *PRIORS], X, Y)
    gap = _value(bound, values, X, Y) - _value(plain, values, X, Y)
    assert abs(gap) > 1 and gap == pytest.approx(_log_priors(values), rel=1e-8)


def test_the_gradient_in_training():
    X, Y = data(10)
    bound, values = _bound([*DEEP, "model.per_output=all", *PRIORS], X, Y)
    hyper = [name for name, _ in bound.priors]
    assert {"layer0/kernel/rbf/lengthscales", "layer1/kernel/rbf/variance", "likelihood/variance"} <= {*hyper}
    assert "layer0/kernel/white/variance" not in hyper
    assert gradient_gap(bound, values, X, Y, hyper) < 1e-6


def test_a_narrow_prior_holds_lengthscales():
    """At exp(0.4), where they go from 2; without it the data take them elsewhere."""
    X, Y = data(30)
    narrow = "model.priors.lengthscale=[lognormal,0.4,0.01]"
    ends = []
    for more in ([narrow], []):
        trainer = trainer_of([*DEEP, "inference=fast", *more], X, Y)
        trainer.run(0, np.zeros((400, 0), np.int32))
        values = trainer.values()
        ends.append([float(values[f"layer{i}/kernel/rbf/lengthscales"][0]) for i in (0, 1)])
    np.testing.assert_allclose(ends[0], np.exp(0.4), rtol=0.02)
    assert np.abs(np.log(ends[1]) - 0.4).max() > 0.1


def test_a_stopped_run_goes_on_to_the_same_bits():
    assert resumes_bitwise([*DEEP, "inference=fast", *PRIORS], *data(20))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["model=dgp2", "inference=alpha", PRIORS[0]], "inference=alpha has no use for them"),
        (["model=dgp2", "inference=sghmc", PRIORS[0]], "inference=sghmc has no use for them"),
        (["model=sgp", "inference.hyperparameters=fixed", PRIORS[0]], "make no difference"),
        (["model=mfdgp", "dataset=mf_sine", PRIORS[0]], "are not for model=mfdgp"),
        (["model=dgp2", "model.priors.lengthscale=foo"], "a prior is one of"),
    ],
)
def test_priors_that_do_not_fit_are_one_line(words, said):
    with pytest.raises(UserError, match=said) as error:
        compose(words)
    assert "\n" not in str(error.value)
