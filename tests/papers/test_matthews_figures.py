"""The numbers behind the figures of Matthews' thesis against closed forms and brute force."""

import os
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from report_units import bare_record
from scipy.stats import multivariate_normal

from dgpbench.errors import UserError
from dgpbench.papers import figures
from dgpbench.papers.figures import approximation_figures as approximations
from dgpbench.papers.figures import fitted_figures as fitted
from dgpbench.papers.figures import prior_figures as priors
from dgpbench.papers.figures import record_figures
from dgpbench.papers.figures import regression_figures as regression
from dgpbench.papers.figures import regression_figures as snelson
from dgpbench.report.charts import Nothing

needs_mirror = pytest.mark.skipif(
    not os.environ.get("DGPBENCH_MIRROR"), reason="needs the data mirror: set DGPBENCH_MIRROR"
)


def test_draws_have_their_kernels_covariance():
    x = np.array([0.5, 1.0, 3.0])
    rng = np.random.RandomState(0)
    for kernel in priors.KERNEL_DRAWS_KERNELS.values():
        F = np.concatenate([priors.kernel_draws_draws(kernel, x, rng) for _ in range(2000)])
        assert np.allclose(F.T @ F / len(F), kernel(x), atol=0.05)


def test_the_posterior_over_two_variables():
    """Evidence by the orthant probability of a bivariate normal; the larger family is the nearer."""
    p, evidence = approximations.exact()
    r = 9 * 0.85 / (1 + 9)
    assert evidence == pytest.approx(0.25 + np.arcsin(r) / (2 * np.pi), abs=1e-5)
    kl = {
        "full": approximations.divergence(approximations.gaussian(True), p),
        "factorised": approximations.divergence(approximations.gaussian(False), p),
        "mean field": approximations.divergence(approximations.mean_field(), p),
    }
    assert 0 < kl["full"] < kl["mean field"] < kl["factorised"]
    q = approximations.mean_field()
    width = approximations.AXIS[1] - approximations.AXIS[0]
    for shift in (0.1, -0.1):  # any other product of these marginals is further
        moved = np.interp(approximations.AXIS - shift, approximations.AXIS, q.sum(1) * width)
        moved /= moved.sum() * width
        assert approximations.divergence(np.outer(moved, moved), p) > kl["mean field"]


def vfe(x, y, z):
    """Titsias' bound with unit hyperparameters, by N x N matrices."""
    k, K = approximations.kernel(x, np.array([z])), approximations.kernel(x, x)
    Q = k @ k.T
    return multivariate_normal(np.zeros(len(x)), Q + np.eye(len(x))).logpdf(y) - 0.5 * np.trace(K - Q)


def test_augmented_divergences():
    x, y = approximations.data()
    log_p = multivariate_normal(np.zeros(3), approximations.kernel(x, x) + np.eye(3)).logpdf(y)
    both, own = np.array([approximations.divergences(x, y, z) for z in approximations.AUGMENTED_Z]).T
    expected = [log_p - vfe(x, y, z) for z in approximations.AUGMENTED_Z]
    away = np.abs(approximations.AUGMENTED_Z[:, None] - x).min(1) > 0.1  # where f_z is no f_x
    assert np.allclose(both[away], np.array(expected)[away], atol=1e-5)
    assert np.all(own <= both + 1e-6) and np.all(own > 0)
    assert abs(approximations.AUGMENTED_Z[both.argmin()] - approximations.AUGMENTED_Z[own.argmin()]) > 0.02


def test_divergences_of_processes_are_those_of_their_gaussians():
    rng = np.random.RandomState(0)
    X, Y = np.array([[-2.0], [-0.6], [0.2], [1.2], [1.9]]), rng.randn(5, 1)
    Z = np.array([[-1.1], [0.7]])
    h = {"kernel_variance": 1.3, "lengthscale": 0.8, "likelihood_variance": 0.4}
    k = lambda a, b: 1.3 * np.exp(-0.5 * ((a - b.T) / 0.8) ** 2)  # noqa: E731
    both = np.concatenate([X, Z])
    A = np.linalg.solve(k(Z, Z) + regression.GROWING_JITTER * np.eye(2), k(Z, X)).T
    S = np.linalg.inv(np.linalg.inv(k(Z, Z)) + A.T @ A / 0.4)
    m = S @ A.T @ Y[:, 0] / 0.4
    B = np.vstack([A, np.eye(2)])  # mean of (f_X, f_Z) given f_Z
    rest = np.zeros((7, 7))
    rest[:5, :5] = k(X, X) - A @ k(Z, X)
    q = B @ m, B @ S @ B.T + rest
    gain = np.linalg.solve(k(X, X) + 0.4 * np.eye(5), k(X, both)).T
    p = gain @ Y[:, 0], k(both, both) - gain @ k(X, both)
    Q = A @ k(Z, X)
    bound = (
        multivariate_normal(np.zeros(5), Q + 0.4 * np.eye(5)).logpdf(Y[:, 0]) - np.trace(k(X, X) - Q) / 0.8
    )
    forward, backward = regression.divergences(X, Y, Z, h, bound)
    assert forward == pytest.approx(approximations.gaussian_kl(*q, *p), abs=1e-4)
    assert backward == pytest.approx(approximations.gaussian_kl(*p, *q), abs=1e-4)


@needs_mirror
def test_the_wiener_fit_of_the_thesis(tmp_path, monkeypatch):
    """Fig. 1.3: even rows. The evidence is -41.06; the thesis prints -42.5."""
    monkeypatch.setenv("DGPBENCH_DATASETS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    X, Y = snelson.snelson_data()
    scale, noise, evidence = regression.wiener_fit(X[::2, 0], Y[::2, 0])
    assert evidence == pytest.approx(-41.06, abs=5e-3)
    assert np.sqrt(noise) == pytest.approx(0.25, abs=0.01) and scale == pytest.approx(
        0.92**2 / 1.15, rel=0.15
    )


def test_a_figure_without_its_data_says_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def missing(cfg, note):
        raise UserError("snelson1d is not here; fetch it")

    monkeypatch.setattr(snelson, "load_split", missing)
    with pytest.raises(Nothing, match="it needs the dataset snelson1d: snelson1d is not here"):
        figures.make(figures.find("matthews1.3"), [])


def test_budgets_are_points_of_a_curve():
    def unit(steps, seconds, loglik, error, split):
        record = bare_record(
            experiment="matthews2016_banana_gfitc4",
            split=split,
            training={"seconds": seconds},
            metrics={"test_loglik": loglik, "test_error": error},
            config={"budget": {"steps": steps}},
        )
        return SimpleNamespace(record=record)

    found = [unit(100, 4.0, -0.2, 0.1, 0), unit(10, 1.0, -0.5, 0.3, 0), unit(10, 3.0, -0.7, 0.1, 1)]
    frame = record_figures.points(found, "matthews2016_banana_")
    assert list(frame.method) == ["gfitc4"] * 2 and list(frame.seconds) == [2.0, 4.0]
    assert np.allclose(frame.test_loglik, [0.6, 0.2]) and np.allclose(frame.test_error, [0.2, 0.1])
    picture = record_figures.budgets_picture(SimpleNamespace(name="x", title="x", strip=""), found)
    assert isinstance(picture.data, pd.DataFrame) and picture.image()[:4] == b"\x89PNG"
    with pytest.raises(Nothing, match="none of these runs"):
        record_figures.points([SimpleNamespace(record=found[0].record | {"metrics": {}})], "")


def test_gains_are_paired_by_split_and_inducing_points():
    def unit(name, loglik, split, M, inducing="trained"):
        inference = {"name": name, "start": {"inducing": inducing}}
        config = {"inference": inference, "model": {"layers": ["gp"], "num_inducing": M}, "seed": 0}
        record = bare_record(dataset="toy", split=split, config=config, metrics={"test_loglik": loglik})
        return SimpleNamespace(record=record)

    found = [unit("sgpmc", -0.2, 0, 5), unit("sgpmc", -0.3, 1, 5), unit("ngd_adam", -0.5, 0, 5)]
    found += [unit("ngd_adam", -0.4, 1, 5), unit("sgpmc", -0.9, 1, 5, "fixed"), unit("ngd_adam", -9.0, 1, 7)]
    frame = record_figures.differences(found).set_index("against")
    assert frame.difference["gaussian"] == pytest.approx(0.2) and frame.pairs["gaussian"] == 2
    assert frame.error["gaussian"] == pytest.approx(0.1)
    assert frame.difference["clamped"] == pytest.approx(0.6) and set(frame.M) == {5}
    assert record_figures.gains_picture(SimpleNamespace(name="x", title="x"), found).image()[:4] == b"\x89PNG"
    with pytest.raises(Nothing, match="no pair of runs"):
        record_figures.differences(found[2:])


@pytest.mark.slow
def test_contours_of_three_classes(tmp_path):
    from dgpbench.config import compose
    from dgpbench.experiment import run_unit

    words = ["model=sgp", "model.num_inducing=6", "dataset=gaussians3", "likelihood=robustmax", "threads=1"]
    words += ["precision=float64", f"paths.results={tmp_path}", f"paths.datasets={tmp_path}"]
    chain = ["inference=sgpmc", "inference.start.steps=60", "inference.burn_in=5", "inference.kept=10"]
    runs = (["inference=ngd_adam", "budget.steps=60"], [*chain, "inference.leapfrog=3", "budget.steps=80"])
    units = [run_unit(compose([*words, "paths.mirror=null", *run]))[0] for run in runs]
    picture = fitted.contours_picture(SimpleNamespace(name="x", title="x", strip=""), units)
    table = picture.data
    assert set(table.method) == {"ngd_adam", "sgpmc"} and len(table) == 2 * fitted.CONTOURS_SIDE**2
    np.testing.assert_allclose(table[["p0", "p1", "p2"]].sum(1), 1.0, atol=1e-6)
    assert picture.image()[:4] == b"\x89PNG"
    plane = fitted.Plane(units[1], "")
    functions = plane.functions(plane.X[0])
    assert functions.shape == (fitted.DRAWS, 3) and functions.std(0).min() > 0
    own = plane.labels[0]  # at a training row the function of its class is the largest, on the average
    assert functions.mean(0).argmax() == own


@pytest.mark.slow
def test_boundaries_of_runs_with_parameters(tmp_path):
    from dgpbench.config import compose
    from dgpbench.experiment import run_unit

    rng = np.random.RandomState(0)
    X = rng.randn(40, 2)
    label = (X[:, 0] > 0).astype(int)
    file = tmp_path / "plane.csv"
    file.write_text("a,b,c\n" + "\n".join(f"{p},{q},{c}" for (p, q), c in zip(X, label, strict=True)))
    words = [
        "dataset=csv",
        f"dataset.path={file}",
        "dataset.target=c",
        "dataset.task=binary",
        "budget.steps=3",
    ]
    words += [f"paths.results={tmp_path}", f"paths.datasets={tmp_path}", "paths.mirror=null"]
    models = (["model=gfitc", "model.num_inducing=4"], ["model=ep_gpc"])
    units = [run_unit(compose([*words, *model]))[0] for model in models]
    found = fitted.boundary(units[0], "EP")
    assert found.M == 4 and found.Z.shape == (4, 2) and found.probs.shape == (fitted.SIDE,) * 2
    left, right = found.probs[:40].mean(), found.probs[-40:].mean()
    assert left < 0.4 and right > 0.6
    picture = fitted.boundaries_picture(SimpleNamespace(name="x", title="x"), units)
    assert set(picture.data.M) == {4} and picture.image()[:4] == b"\x89PNG"
