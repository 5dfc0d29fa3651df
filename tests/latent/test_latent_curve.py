"""The first GP as a curve in w: prediction and density by it are those of asking all layers at every w."""

import numpy as np
import pytest
from scipy.interpolate import make_interp_spline
from test_latent_models import fit

from dgpbench.engine.platform import tf
from dgpbench.evaluate.mixture import log_mean_exp
from dgpbench.models import latent_curve, latent_density, prediction


def exact(monkeypatch, made, X, Y, samples=400):
    """Predictions and densities with every layer asked at every w, and many more nodes."""
    with monkeypatch.context() as patch:
        patch.setattr(latent_curve, "possible", lambda bound: False)
        patch.setattr(latent_density, "PANELS", 256)
        latent_density._compiled.cache_clear()
        out = made.predict(X, samples, 3), made.log_density(X, Y, samples, 3)
    latent_density._compiled.cache_clear()
    return out


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.05, 1e-4])
@pytest.mark.parametrize("model", ["lv_gp", "lv_gp_gp", pytest.param("lv_gp_gp_gp", marks=pytest.mark.long)])
def test_curve_equals_all_layers(model, noise, monkeypatch):
    made, X, Y, _ = fit(f"model={model}", "inference=iwvi", "model.inner_q_scale=0.3")
    made.load_parameters(made.values | {"likelihood/variance": np.asarray(noise)})
    X, Y = X[:6], Y[:6] + np.array([[0.0], [0.0], [0.3], [-0.5], [1.0], [2.0]])  # some in the tails
    tried = []
    ways = latent_curve.Ways.first_good
    monkeypatch.setattr(
        latent_curve.Ways, "first_good", lambda self, run: (ways(self, run), tried.append(self.ways[0]))[0]
    )
    ours, terms = made.predict(X, 400, 3), made.log_density(X, Y, 400, 3)
    assert tried[0] in latent_curve.NODES and tried[-1][0] == "splines"
    theirs, expected = exact(monkeypatch, made, X, Y)
    np.testing.assert_allclose(ours.mean, theirs.mean, atol=1e-5)
    np.testing.assert_allclose(ours.var, theirs.var, rtol=1e-4)
    np.testing.assert_allclose(log_mean_exp(terms), log_mean_exp(expected), atol=1e-3)


@pytest.mark.slow
def test_a_rough_curve_is_not_used(monkeypatch):
    """A short lengthscale in w: no spline through so few nodes is right, and the numbers are still right."""
    made, X, Y, _ = fit("model=lv_gp_gp", "inference=iwvi")
    name = next(n for n in made.values if n.startswith("layer1") and n.endswith("lengthscales"))
    short = made.values[name].copy()
    short[-1] = 0.02
    moved = {n: v + 1.0 if n == "layer1/q_mu" else v for n, v in made.values.items()}
    made.load_parameters(moved | {name: short})
    rows = prediction.COLUMNS // 400
    given = (made._members[0], np.tile(X[:5], (rows // 5, 1)), tf.constant([3, 0]))
    _, doubt = prediction._compiled_predict(made.bound, 400, latent_curve.NODES[-1])(*given)
    assert doubt > 1.0
    ours = made.predict(X[:5], 400, 3)
    theirs, _ = exact(monkeypatch, made, X[:5], Y[:5])
    np.testing.assert_array_equal(ours.mean, theirs.mean)


def test_spline_is_scipys():
    rng = np.random.default_rng(0)
    values, w = rng.normal(size=(3, 17, 2)), rng.uniform(-8, 8, size=(2, 50))
    ours = latent_curve.spline_at(tf.constant(values), tf.constant(w)).numpy()
    u = np.arcsinh(w / latent_curve.RANGE * np.sinh(latent_curve.BEND)) / latent_curve.BEND
    for b in range(2):
        spline = make_interp_spline(np.linspace(-1, 1, 17), values[:, :, b].T, k=latent_curve.DEGREE)
        np.testing.assert_allclose(ours[:, :, b], spline(u[b]).T, atol=1e-9)
    nodes = latent_curve.nodes(17)
    at_nodes = latent_curve.spline_at(tf.constant(values), tf.constant(np.tile(nodes, (2, 1)))).numpy()
    np.testing.assert_allclose(at_nodes, values, atol=1e-9)


def test_ways_are_left_for_good():
    ways, asked = latent_curve.Ways((33, 65, 0)), []

    def run(way):
        asked.append(way)
        return way, {33: 7.0, 65: 0.5, 0: 99.0}[way]

    assert [ways.first_good(run) for _ in range(3)] == [65, 65, 65] and asked == [33, 65, 65, 65]
    assert latent_curve.Ways((0,)).first_good(run) == 0
