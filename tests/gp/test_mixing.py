"""P from the eigenvectors of a kernel on pixels: P P^T is the Gram matrix, truncated or whole."""

import gpflow
import numpy as np
import pytest

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.gp.initialisation import pixel_scales
from dgpbench.gp.start import build

SHAPE = (5, 4)


def _gram(lengthscale):
    """Of the pixels row by row, by GPflow."""
    places = np.array([[i, j] for i in range(SHAPE[0]) for j in range(SHAPE[1])], float)
    return gpflow.kernels.Matern52(lengthscales=lengthscale).K(places).numpy()


@pytest.mark.parametrize("lengthscale", [1.0, 2.5])
def test_with_all_eigenvectors_it_is_the_whole_matrix(lengthscale):
    P = pixel_scales(SHAPE, 20, lengthscale)
    np.testing.assert_allclose(P @ P.T, _gram(lengthscale), atol=1e-8)


@pytest.mark.parametrize("count", [1, 7])
def test_with_some_it_is_the_truncated_matrix(count):
    P, gram = pixel_scales(SHAPE, count, 1.0), _gram(1.0)
    U, s, Vt = np.linalg.svd(gram)
    np.testing.assert_allclose(P @ P.T, (U[:, :count] * s[:count]) @ Vt[:count], atol=1e-8)
    assert np.linalg.norm(gram - P @ P.T, 2) == pytest.approx(s[count])  # no other of that rank is nearer
    np.testing.assert_allclose(P.T @ P, np.diag(s[:count]), atol=1e-8)


def _built(*words):
    cfg = compose(["model=cde", "model.num_inducing=4", *words])
    rng = np.random.RandomState(0)
    return build(cfg, np.eye(4)[rng.randint(0, 4, 12)], rng.rand(12, 64), 0)


def test_a_model_of_images_starts_there():
    words = ["dataset=strokes_images", "model.output_gps=6", "model.output_mixing=pixels"]
    made, values, fixed, _ = _built(*words, "model.mixing_lengthscale=2", "inference=vi")
    np.testing.assert_array_equal(values["layer1/P"], pixel_scales((8, 8), 6, 2.0))
    assert made.output_dim == 64 and made.layers[-1].output_dim == 6 and "layer1/P" not in fixed
    held = _built(*words, "model.output_mixing_trainable=false", "inference=vi")[2]
    assert held - fixed == {"layer1/P"}


def test_noise_may_be_held_where_it_starts():
    words = ["dataset=strokes_images", "model.likelihood_variance=0.1", "inference=vi"]
    _, values, fixed, _ = _built(*words, "model.likelihood_variance_trainable=false")
    assert values["likelihood/variance"] == 0.1 and "likelihood/variance" in fixed
    assert "likelihood/variance" not in _built(*words)[2]


@pytest.mark.parametrize(
    "words, says",
    [
        (["model.output_mixing=pixels"], "needs GPs to mix; set model.output_gps"),
        (["model.output_mixing=pixels", "model.output_gps=3", "dataset=boston"], "needs images as outputs"),
        (["model.likelihood_variance_trainable=false", "model.start=data"], "set model.start=config"),
        (["model.output_mixing_trainable=false"], "needs GPs to mix; set model.output_gps"),
        (["model.output_mixing=pixel"], "did you mean 'pixels'"),
    ],
)
def test_what_does_not_go_together_is_refused(words, says):
    with pytest.raises(UserError, match=says) as error:
        _built("inference=vi", *words)
    assert "\n" not in str(error.value)


def test_held_noise_is_gaussian():
    from dgpbench.gp.likelihoods import LIKELIHOODS

    cfg = compose(["model=sgp", "model.likelihood_variance_trainable=false", "likelihood=student_t"])
    with pytest.raises(UserError, match="is for Gaussian noise, not student_t"):
        build(cfg, np.zeros((6, 1)), np.zeros((6, 1)), 0, likelihood=LIKELIHOODS["student_t"]())
