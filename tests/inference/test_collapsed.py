"""The collapsed GP-LVM: GPflow's BayesianGPLVM and SGPR, the uncollapsed bound at its best q(u), steps."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from inference_tools import JITTER, columns, data, trainer_of

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.gp import psi
from dgpbench.gp.deep_gp import prepare
from dgpbench.gp.layer import kl_divergence
from dgpbench.gp.parameters import constrain, unconstrain
from dgpbench.gp.start import build
from dgpbench.inference.bounds import VI
from dgpbench.inference.collapsed import gaussian_inputs, optimum

N, P, NOISE = 9, 3, 0.2
LVM = ["inference=collapsed", "model=gplvm", "model.num_inducing=5", "precision=float64"]
CDE = ["inference=collapsed", "model=cde", "model.num_inducing=5", "precision=float64"]
PROJECTED = [*CDE, "model.layers=[linear,lv,gp]", "model.projection_dim=2"]


def _problem(*words, D=3, seed=0):
    """Data, structure and values away from their start."""
    rng = np.random.RandomState(seed)
    X, Y = rng.randn(N, D), rng.randn(N, P)
    cfg = compose(list(words))
    model, values, _, _ = build(cfg, X, Y, seed)
    for name, v in values.items():
        if name.endswith(("local/mean", "projection/mean", "/Z")):
            values[name] = rng.randn(*v.shape)
        elif name.endswith(("local/scale", "projection/scale", "lengthscales")):
            values[name] = rng.uniform(0.4, 1.2, v.shape)
    values["likelihood/variance"] = np.asarray(NOISE)
    return X if model.input_dim else X[:, :0], Y, model, values


def _tensors(values):
    return {name: tf.constant(np.asarray(v)) for name, v in values.items()}


def _optimum(model, values, X, Y, jitter=JITTER):
    return optimum(model, _tensors(values), *columns(X, Y), jitter)


def _kernel(values, layer):
    own = {n: values[f"layer{layer}/kernel/rbf/{n}"] for n in ("variance", "lengthscales")}
    return gpflow.kernels.RBF(own["variance"], own["lengthscales"])


@pytest.mark.parametrize("latent_dim", [1, 2])
def test_the_bound_is_gpflows_bayesian_gplvm(latent_dim):
    X, Y, model, values = _problem(*LVM, f"model.latent_dim={latent_dim}")
    theirs = gpflow.models.BayesianGPLVM(
        Y,
        X_data_mean=values["layer0/local/mean"],
        X_data_var=values["layer0/local/scale"] ** 2,
        kernel=_kernel(values, 1),
        inducing_variable=values["layer1/Z"].copy(),
        X_prior_mean=np.zeros((N, latent_dim)),
        X_prior_var=np.ones((N, latent_dim)),
    )
    theirs.likelihood.variance.assign(NOISE)
    assert float(_optimum(model, values, X, Y).bound) == pytest.approx(float(theirs.elbo()), rel=1e-6)


def test_certain_inputs_make_it_sgpr():
    """q(w) and q(A) without variance: SGPR at [A x, a], less the two divergences."""
    X, Y, model, values = _problem(*PROJECTED)
    for name in ("layer0/projection/scale", "layer1/local/scale"):
        values[name] = np.full(values[name].shape, 1e-9)
    A, a = values["layer0/projection/mean"], values["layer1/local/mean"]
    inputs = np.hstack([X @ A.T, a])
    theirs = gpflow.models.SGPR(
        (inputs, Y), _kernel(values, 2), values["layer2/Z"].copy(), noise_variance=NOISE
    )
    kl = sum(np.sum(0.5 * (m**2 + 1e-18 - 1) - np.log(1e-9)) for m in (A, a))
    assert float(_optimum(model, values, X, Y).bound) == pytest.approx(float(theirs.elbo()) - kl, rel=1e-6)
    found = _optimum(model, values, X, Y)
    L = np.linalg.cholesky(_kernel(values, 2).K(values["layer2/Z"]).numpy() + JITTER * np.eye(5))
    mean, cov = (v.numpy() for v in theirs.compute_qu())
    np.testing.assert_allclose(L @ found.mean.numpy().T, mean, atol=1e-5)
    np.testing.assert_allclose(L @ found.root.numpy() @ found.root.numpy().T @ L.T, cov, atol=1e-5)


def _uncollapsed(model, values, X, Y, mean, root):
    """E log p(y | f) - KL(q(u)) - KL(q(w), q(A)) for any q(u), by a layer's moments under Gaussian inputs."""
    last = len(model.layers) - 1
    held = _tensors(values) | {
        f"layer{last}/q_mu": mean,
        f"layer{last}/q_sqrt": tf.broadcast_to(root, (P, *root.shape)),
    }
    Xc, Yc = columns(X, Y)
    h, penalty = gaussian_inputs(model, held, Xc, Yc, JITTER)
    forms = ["white"] * last + ["quad"]
    prepared, _ = prepare(model, held, tf.constant(JITTER, tf.float64), forms, rows=tf.range(N))
    f = psi.projected(model.layers[-1], prepared[f"layer{last}"], h)
    each = model.likelihood.variational_expectations(prepared["likelihood"], *f, Yc)
    kl = kl_divergence(held[f"layer{last}/q_mu"], held[f"layer{last}/q_sqrt"])
    return float(tf.reduce_sum(each) - kl - penalty)


@pytest.mark.parametrize("words", [LVM, CDE, PROJECTED, [*LVM, "model.kernel=rbf+linear"]])
def test_it_is_the_uncollapsed_bound_at_the_best_posterior(words):
    X, Y, model, values = _problem(*words)
    found, rng = _optimum(model, values, X, Y), np.random.RandomState(1)
    best = float(found.bound)
    assert best == pytest.approx(_uncollapsed(model, values, X, Y, found.mean, found.root), rel=1e-8)
    for _ in range(3):
        moved = found.mean + 0.05 * rng.randn(*found.mean.shape)
        assert _uncollapsed(model, values, X, Y, moved, found.root) < best
        moved = found.root + 0.05 * np.tril(rng.randn(*found.root.shape))
        assert _uncollapsed(model, values, X, Y, found.mean, moved) < best


@pytest.mark.parametrize(
    "words", [PROJECTED, [*CDE, "inference.latent_q=amortised", "inference.encoder=[2]"]]
)
def test_the_gradient_against_differences(words):
    X, Y, model, values = _problem(*words)
    bound, rng = VI(model), np.random.RandomState(2)
    names = [name for name in values if "/q_" not in name]
    raw = _tensors(unconstrain({name: values[name] for name in names}, bound.constraints()))

    def at(raw):
        return optimum(model, constrain(raw, bound.constraints()), *columns(X, Y), JITTER).bound

    with tf.GradientTape() as tape:
        tape.watch(raw)
        value = at(raw)
    gradients = tape.gradient(value, raw, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    compiled = tf.function(at)
    for name in names:  # along random directions: every entry counts
        way = rng.randn(*raw[name].shape)
        ends = [float(compiled(raw | {name: raw[name] + s * 1e-5 * way})) for s in (1, -1)]
        slope = (ends[0] - ends[1]) / 2e-5
        ours = float(tf.reduce_sum(tf.convert_to_tensor(gradients[name]) * way))
        assert ours == pytest.approx(slope, rel=1e-5, abs=1e-5), name


def test_after_each_step_the_posterior_is_the_best_one():
    X, Y = data(N, D=2, P=P)
    trainer = trainer_of(CDE, X, Y)
    first = trainer.run(0, np.zeros((1, 0), np.int32))["bound_last"]
    last = trainer.run(1, np.zeros((60, 0), np.int32))["bound_last"]
    assert last > first + 1.0
    values, model = trainer.values(), trainer.spec.bound.model
    found = _optimum(model, {n: v for n, v in values.items() if n != "jitter"}, X, Y)
    np.testing.assert_allclose(values["layer1/q_mu"], found.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(values["layer1/q_sqrt"][2], found.root, rtol=1e-8, atol=1e-10)
    assert float(found.bound) >= last - 0.1


def test_steps_resume_to_the_same_bits():
    X, Y = data(N, D=2, P=P)
    trainer = trainer_of(PROJECTED, X, Y)
    steps, first = np.zeros((8, 0), np.int32), trainer.state()
    trainer.run(0, steps)
    whole = trainer.state()
    trainer.restore(first)
    trainer.run(0, steps[:3])
    kept = trainer.state()
    trainer.run(3, steps[:2])
    trainer.restore(kept)
    trainer.run(3, steps[:5])
    assert all(np.array_equal(v, trainer.state()[name]) for name, v in whole.items())
    assert not np.array_equal(whole["raw/layer2/q_mu"], first["raw/layer2/q_mu"])


@pytest.mark.parametrize(
    "words, says",
    [
        (["model=dgp2"], "for one GP behind latent variables"),
        (["model=lv_gp_gp"], "for one GP behind latent variables"),
        (["model=gplvm", "likelihood=student_t"], "for Gaussian noise, not likelihood=student_t"),
        (["model=gplvm", "model.kernel=matern52"], "has matern52: use model.kernel=rbf, or inference=vi"),
        (["model=gplvm", "model.output_gps=1"], "makes correlated outputs"),
        (["model=gplvm", "precision=float32"], "use precision=mixed or float64"),
        (["model=gplvm", "inference.latent_q=best"], "one of free, amortised"),
        (["model=gplvm", "model.whiten=false"], "has coordinates of its own"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_line(words, says):
    with pytest.raises(UserError, match=says) as error:
        compose(["inference=collapsed", *words])
    assert "\n" not in str(error.value)
