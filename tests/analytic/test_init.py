"""Initial structure and values: widths, mean functions, inducing points, per-layer settings."""

import numpy as np
import pytest

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.gp import initialisation
from dgpbench.gp.initialisation import kmeans, principal_axes
from dgpbench.gp.start import build, structure


def _build(X, *overrides, outputs=1):
    return build(compose(["inference=fast", *overrides]), X, np.zeros((len(X), outputs)), 0)


def _X(N=60, D=4, seed=0):
    return np.random.RandomState(seed).randn(N, D)


def test_defaults_are_those_of_the_paper():
    model, values, fixed, notes = _build(_X(), "model=dgp3", "model.num_inducing=20")
    assert [(layer.input_dim, layer.output_dim, layer.mean) for layer in model.layers] == [
        (4, 4, "identity"),
        (4, 4, "identity"),
        (4, 1, "zero"),
    ]
    assert [layer.kernel.names for layer in model.layers] == [("rbf", "white"), ("rbf", "white"), ("rbf",)]
    assert values["layer0/kernel/rbf/variance"] == 2.0
    np.testing.assert_array_equal(values["layer1/kernel/rbf/lengthscales"], np.full(4, 2.0))
    assert values["layer0/kernel/white/variance"] == 1e-5
    assert values["likelihood/variance"] == 0.01
    np.testing.assert_allclose(values["layer0/q_sqrt"][2], 1e-5 * np.eye(20))
    np.testing.assert_array_equal(values["layer2/q_sqrt"][0], np.eye(20))
    np.testing.assert_array_equal(values["layer0/Z"], values["layer2/Z"])
    assert fixed == set() and notes == []


def test_wide_inputs_are_projected_on_their_principal_axes():
    X = _X(200, 40) * np.linspace(3.0, 0.1, 40)
    model, values, fixed, _ = _build(X, "model=dgp3", "model.num_inducing=10")
    assert [layer.mean for layer in model.layers] == ["linear", "identity", "zero"]
    W = values["layer0/W"]
    assert W.shape == (40, 30)
    np.testing.assert_allclose(W.T @ W, np.eye(30), atol=1e-10)
    largest = np.linalg.eigvalsh(np.cov(X.T))[::-1][:30]
    np.testing.assert_allclose(np.var(X @ W, axis=0, ddof=1), largest, rtol=1e-8)
    assert fixed == {"layer0/W"}
    np.testing.assert_allclose(values["layer1/Z"], values["layer0/Z"] @ W)


def test_growing_width_pads_with_zeros_and_zero_means_have_no_map():
    model, values, *_ = _build(_X(), "model=dgp2", "model.width=6", "model.num_inducing=5")
    np.testing.assert_array_equal(values["layer0/W"], np.eye(4, 6))
    model, values, *_ = _build(_X(), "model=dgp2", "model.width=2", "model.mean=zero", "model.num_inducing=5")
    assert model.layers[0].mean == "zero" and "layer0/W" not in values
    assert values["layer1/Z"].shape == (5, 2)


def test_identity_of_unequal_widths_is_refused():
    with pytest.raises(UserError, match="identity needs equal widths"):
        _build(_X(), "model=dgp2", "model.width=2", "model.mean=identity")


@pytest.mark.parametrize("share,points", [(0.3, 9), (0.05, 2), (0.01, 1)])
def test_inducing_points_as_a_share_of_the_rows(share, points):
    model, values, _, notes = _build(_X()[:30], "model=sgp", f"model.num_inducing={share}")
    assert model.layers[0].num_inducing == points and values["layer0/Z"].shape[0] == points and not notes
    for wrong in ("0.0", "1.5", "-0.2"):
        with pytest.raises(UserError, match="whole number at least 1, or a share of the training rows"):
            compose([f"model.num_inducing={wrong}"])


def test_more_inducing_points_than_rows():
    model, values, _, notes = _build(_X(30), "model=sgp")
    assert model.layers[0].num_inducing == 30
    assert notes == ["layer 0: 100 inducing points asked for, 30 rows: M = 30"]


def test_single_layer_settings_and_sqrt_dim():
    model, values, fixed, _ = _build(
        _X(),
        "model=dgp2",
        "model.lengthscale=sqrt_dim",
        "model.inner_noise_trainable=false",
        "model.ard=false",
        "model.layer_overrides={0:{num_inducing:7,kernel:matern32+linear},1:{num_inducing:9,kernel_variance:0.5}}",
    )
    assert [layer.num_inducing for layer in model.layers] == [7, 9]
    assert model.layers[0].kernel.names == ("matern32", "linear", "white")
    assert values["layer1/kernel/rbf/lengthscales"] == pytest.approx(2.0)
    assert values["layer1/kernel/rbf/variance"] == 0.5
    assert fixed == {"layer0/kernel/white/variance"}


def test_composed_kernels_and_what_of_them_is_held():
    model, values, fixed, _ = _build(
        _X(), "model=dgp2", "model.kernel=rbf*periodic@0:2+linear", "model.inner_variance_trainable=false"
    )
    assert [str(layer.kernel) for layer in model.layers] == [
        "rbf*periodic@0:2+linear+white",
        "rbf*periodic@0:2+linear",
    ]
    assert values["layer0/kernel/periodic/period"].shape == (2,)
    assert fixed == {"layer0/kernel/rbf/variance", "layer0/kernel/periodic/variance"}


@pytest.mark.parametrize("kernel", ["rbf@0:5", "linear+cosine@4", "wiener"])
def test_a_kernel_of_inputs_that_do_not_exist_is_refused(kernel):
    with pytest.raises(UserError, match=r"^model\.kernel=\S+ does not fit: .* inputs"):
        _build(_X(), "model=sgp", f"model.kernel={kernel}")


def test_structure_is_recovered_from_values():
    cfg = compose(["model=dgp3", "model.width=2", "model.num_inducing=6"])
    model, values, *_ = build(cfg, _X(), np.zeros((60, 2)), 0)
    assert structure(cfg, values) == model
    assert model.layers[-1].output_dim == 2


def test_kmeans_centres_are_fixed_points_of_lloyd():
    """On three far clusters the centres are the cluster means, whatever rows it starts from."""
    rng = np.random.RandomState(0)
    groups = [rng.randn(50, 2) * 0.1 + centre for centre in ([0, 0], [10, 0], [0, 10])]
    X = np.concatenate(groups)
    for seed in range(20):
        centres = kmeans(X, 3, np.random.RandomState(seed))
        distance = ((X[:, None] - centres) ** 2).sum(-1)
        nearest = distance.argmin(1)
        for k in np.unique(nearest):
            np.testing.assert_allclose(centres[k], X[nearest == k].mean(0), atol=1e-8)


def test_principal_axes_of_few_rows():
    W = principal_axes(_X(3, 8), 5)
    assert W.shape == (8, 5) and np.isfinite(W).all()


def test_principal_axes_of_many_columns_are_those_of_few(monkeypatch):
    """From the covariance or from the singular value decomposition: the same axes, signs included."""
    H = np.random.RandomState(0).randn(300, 20) * np.linspace(3.0, 0.5, 20)
    by_svd = initialisation.principal_axes(H, 6)
    monkeypatch.setattr(initialisation, "MANY_COLUMNS", 10)
    np.testing.assert_allclose(initialisation.principal_axes(H, 6), by_svd, atol=1e-10)
