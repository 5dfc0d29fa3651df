"""Every kernel against GPflow or NumPy, in all its forms; their gradients; sums, products, chosen inputs."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from dgpbench.config.kernel_names import names
from dgpbench.gp.kernels import parse
from dgpbench.gp.kernels.compose import Product, with_white
from dgpbench.gp.parameters import constrain, scope, unconstrain

D, M, B = 3, 7, 11
GPFLOW = {
    "rbf": lambda v: gpflow.kernels.SquaredExponential(v["variance"], v["lengthscales"]),
    "matern12": lambda v: gpflow.kernels.Matern12(v["variance"], v["lengthscales"]),
    "matern32": lambda v: gpflow.kernels.Matern32(v["variance"], v["lengthscales"]),
    "matern52": lambda v: gpflow.kernels.Matern52(v["variance"], v["lengthscales"]),
    "rational_quadratic": lambda v: gpflow.kernels.RationalQuadratic(
        v["variance"], v["lengthscales"], v["alpha"]
    ),
    "periodic": lambda v: gpflow.kernels.Periodic(
        gpflow.kernels.SquaredExponential(v["variance"], v["lengthscales"]), v["period"]
    ),
    "cosine": lambda v: gpflow.kernels.Cosine(v["variance"], v["lengthscales"]),
    "arccosine0": lambda v: _arccosine(0, v),
    "arccosine1": lambda v: _arccosine(1, v),
    "arccosine2": lambda v: _arccosine(2, v),
    "linear": lambda v: gpflow.kernels.Linear(v["variances"]),
    "polynomial": lambda v: gpflow.kernels.Polynomial(2, v["variances"], v["offset"]),
    "polynomial5": lambda v: gpflow.kernels.Polynomial(5, v["variances"], v["offset"]),
    "white": lambda v: gpflow.kernels.White(v["variance"]),
}
EACH = [name for name in GPFLOW if name != "white"] + ["wiener@1", "gibbs", "affine"]  # one of every family
COMPOSED = [
    *("rbf+white", "rbf+linear", "matern52+linear+white", "rbf+rbf", "rbf*periodic+linear", "rbf@0:2"),
    *("/rbf+linear/*periodic@0@2+white", "matern32@1*linear@-1*rbf", "/rbf@1+linear/@0@2"),
    "wiener@0*wiener@2",
]


def _arccosine(order, v):
    return gpflow.kernels.ArcCosine(order, v["variance"], v["weight_variances"], v["bias_variance"])


def _values(kernel, seed=0):
    """Random values that obey the constraints."""
    rng, constraints = np.random.RandomState(seed), kernel.constraints()
    values = {}
    for name, v in kernel.initial(1.7, 0.8, 0.2).items():
        noise = 0.3 * rng.randn(*v.shape)
        values[name] = v * np.exp(noise) if name in constraints else v + noise
    return values


def _tensors(values, dtype=tf.float64):
    return {name: tf.constant(v, dtype) for name, v in values.items()}


def _points(seed=1):
    rng = np.random.RandomState(seed)
    return rng.randn(M, D), rng.randn(B, D)


def plain(text, values, X, X2):
    """k(X, X2) (N, N2) of one part, written from its formula with TensorFlow's operations."""
    name = text.partition("@")[0]
    v = {key.partition("/")[2]: value for key, value in values.items()}
    gap = X[:, None, :] - X2[None, :, :]
    if name == "wiener":
        a, b = X[:, 1:2], tf.transpose(X2[:, 1:2])
        positive, negative = tf.nn.relu(tf.minimum(a, b)), tf.nn.relu(tf.minimum(-a, -b))
        return v["variance"] * (positive + negative)
    if name == "gibbs":  # Paciorek (2003) with Sigma(x) = diag(lengthscales s(x))^2
        scales = (tf.exp(tf.linalg.matvec(P, v["slopes"])) for P in (X, X2))
        l1, l2 = (v["lengthscales"] * s[:, None] * tf.ones(D, tf.float64) for s in scales)
        mean = (l1[:, None, :] ** 2 + l2[None, :, :] ** 2) / 2
        prefix = tf.reduce_prod(tf.sqrt(l1[:, None, :] * l2[None, :, :] / mean), -1)
        return v["variance"] * prefix * tf.exp(-0.5 * tf.reduce_sum(gap**2 / mean, -1))
    if name == "affine":
        left, right = X - v["centre"], X2 - v["centre"]
        return tf.reduce_sum(v["variances"] * left[:, None, :] * right[None, :, :], -1)
    if name.startswith(("linear", "polynomial")):
        inner = tf.reduce_sum(v["variances"] * X[:, None, :] * X2[None, :, :], -1)
        return inner if name == "linear" else (inner + v["offset"]) ** int(name[10:] or 2)
    if name.startswith("arccosine"):
        w, bias, order = v["weight_variances"], v["bias_variance"], int(name[-1])
        inner = tf.reduce_sum(w * X[:, None, :] * X2[None, :, :], -1) + bias
        norms = [tf.sqrt(tf.reduce_sum(w * P**2, -1) + bias) for P in (X, X2)]
        norm = norms[0][:, None] * norms[1][None, :]
        t = tf.acos(inner / norm)
        J = [np.pi - t, tf.sin(t) + (np.pi - t) * tf.cos(t)]
        J.append(3 * tf.sin(t) * tf.cos(t) + (np.pi - t) * (1 + 2 * tf.cos(t) ** 2))
        return v["variance"] / np.pi * J[order] * norm**order
    if name == "cosine":
        return v["variance"] * tf.cos(2 * np.pi * tf.reduce_sum(gap / v["lengthscales"], -1))
    if name == "periodic":
        sines = tf.sin(np.pi * gap / v["period"]) / v["lengthscales"]
        return v["variance"] * tf.exp(-0.5 * tf.reduce_sum(sines**2, -1))
    r2 = tf.reduce_sum((gap / v["lengthscales"]) ** 2, -1)
    if name == "rational_quadratic":
        return v["variance"] * (1 + r2 / (2 * v["alpha"])) ** -v["alpha"]
    if name == "rbf":
        return v["variance"] * tf.exp(-r2 / 2)
    order = int(name[6]) if name != "matern52" else 5
    r = tf.sqrt(order * r2)
    return v["variance"] * {1: 1.0, 3: 1 + r, 5: 1 + r + r**2 / 3}[order] * tf.exp(-r)


def test_one_list_of_names():
    assert {name.partition("@")[0] for name in EACH} | {"white"} >= set(names()) - {
        f"polynomial{d}" for d in range(1, 10)
    }


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("name", GPFLOW)
def test_equals_gpflow(name, ard):
    text = "rbf+white" if name == "white" else name
    kernel, (Z, X) = parse(text, D, ard), _points()
    values = _values(kernel)
    made = [GPFLOW[part](scope(values, part)) for part in kernel.names]
    theirs = made[0] if len(made) == 1 else gpflow.kernels.Sum(made)
    prepared = kernel.prepare(_tensors(values), tf.constant(Z))
    tolerance = 1e-7 if name == "arccosine0" else 1e-11  # acos is steep where the angle is 0
    np.testing.assert_allclose(kernel.cross(prepared, tf.constant(X.T)), theirs.K(Z, X), atol=tolerance)
    np.testing.assert_allclose(kernel.gram(prepared), theirs.K(Z), rtol=1e-11, atol=tolerance)
    diagonal = np.broadcast_to(kernel.diagonal(prepared, tf.constant(X.T)), (1, B))[0]
    np.testing.assert_allclose(diagonal, theirs.K_diag(X), rtol=1e-11)


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("text", EACH)
def test_equals_its_formula_in_value_and_gradient(text, ard):
    kernel, (Z, X) = parse(text, D, ard), _points(2)
    values = _tensors(_values(kernel, 3))
    weights = tf.constant(np.random.RandomState(4).randn(M, B))
    sources = [values, tf.constant(Z), tf.constant(X)]
    gradients = []
    for ours in (True, False):
        with tf.GradientTape() as tape:
            tape.watch(sources)
            v, z, x = sources
            K = kernel.cross(kernel.prepare(v, z), tf.transpose(x)) if ours else plain(text, v, z, x)
            loss = tf.reduce_sum(weights * K)
        gradients.append((K, tape.gradient(loss, sources)))
    for ours, formula in zip(*map(tf.nest.flatten, gradients), strict=True):
        np.testing.assert_allclose(ours, formula, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("text", [*EACH, *COMPOSED])
def test_all_forms_agree_and_are_positive_definite(text):
    """Z among the points: the gram matrix, its diagonal, both crosses and `between` are one matrix."""
    kernel, (Z, _) = parse(text, D, True), _points(5)
    values, points = _tensors(_values(kernel, 6)), tf.constant(Z)
    prepared = kernel.prepare(values, points)
    gram = kernel.gram(prepared).numpy()
    noise = values["white/variance"].numpy() * np.eye(M) if "white" in kernel.names else 0.0
    atol = 1e-6 if text == "arccosine0" else 1e-10
    np.testing.assert_allclose(kernel.cross(prepared, tf.transpose(points)), gram - noise, atol=atol)
    np.testing.assert_allclose(kernel.cross_rows(prepared, points), gram - noise, atol=atol)
    diagonal = np.broadcast_to(kernel.diagonal(prepared, tf.transpose(points)), (1, M))[0]
    np.testing.assert_allclose(diagonal, np.diag(gram), atol=atol)
    left = tf.constant(np.repeat(Z.T[:, :, None], M, 2))  # D, M, M
    right = tf.transpose(left, (0, 2, 1))
    rows = [kernel.between(prepared, left[:, t : t + 1], right[:, t : t + 1], [[False]]) for t in range(M)]
    rows = [np.broadcast_to(row, (1, M)) for row in rows]
    np.testing.assert_allclose(np.concatenate(rows), gram - noise, atol=atol)
    one = tf.transpose(points)[:, None, :]  # D, 1, M
    np.testing.assert_allclose(
        np.broadcast_to(kernel.between(prepared, one, one, [[True]]), (1, M))[0], np.diag(gram), atol=atol
    )
    assert np.linalg.eigvalsh((gram + gram.T) / 2).min() > -1e-9


@pytest.mark.parametrize("text", [*EACH, *COMPOSED])
def test_gradients_of_all_forms_agree(text):
    """The gram matrix, with its own gradient, against both crosses and `between` at the same points."""
    kernel, (Z, _) = parse(text, D, True), _points(7)
    free = unconstrain(_values(kernel, 8), kernel.constraints())
    raw = {name: tf.constant(v) for name, v in free.items() if name != "white/variance"}
    weights = np.random.RandomState(9).randn(M, M)
    np.fill_diagonal(weights, 0.0)  # r and acos have a kink at equal points
    i, j = np.nonzero(weights)
    found = []
    for form in ("gram", "cross", "rows", "between"):
        points = tf.constant(Z)
        with tf.GradientTape() as tape:
            tape.watch([raw, points])
            values = constrain(raw | {"white/variance": tf.constant(0.0, tf.float64)}, kernel.constraints())
            q = kernel.prepare(values, points)
            if form == "gram":
                loss = tf.reduce_sum(weights * kernel.gram(q))
            elif form == "cross":
                loss = tf.reduce_sum(weights * kernel.cross(q, tf.transpose(points)))
            elif form == "rows":
                loss = tf.reduce_sum(weights.T * kernel.cross_rows(q, points))
            else:
                left, right = (tf.transpose(tf.gather(points, index))[:, None] for index in (i, j))
                loss = tf.reduce_sum(weights[i, j] * kernel.between(q, left, right, [[False]]))
        found.append(tf.nest.flatten(tape.gradient(loss, [raw, points])))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(tf.convert_to_tensor(b), a, rtol=1e-7, atol=1e-8)


def test_gibbs_without_slopes_is_rbf():
    gibbs, rbf, (Z, X) = parse("gibbs", D, True), parse("rbf", D, True), _points()
    values = _values(rbf)
    ours = {name.replace("rbf", "gibbs"): v for name, v in values.items()} | {"gibbs/slopes": np.zeros(D)}
    assert set(ours) == set(gibbs.initial(1.0, 1.0, 0.0)) and "gibbs/slopes" not in gibbs.constraints()
    K = gibbs.cross(gibbs.prepare(_tensors(ours), tf.constant(Z)), tf.constant(X.T))
    np.testing.assert_allclose(
        K, rbf.cross(rbf.prepare(_tensors(values), tf.constant(Z)), tf.constant(X.T)), rtol=1e-12
    )


def test_gibbs_in_one_dimension_is_the_printed_formula():
    """Thesis (1.42) with l(x) = 0.8 exp(0.5 x)."""
    kernel, x, y = parse("gibbs", 1, True), 0.3, -1.1
    values = {"gibbs/variance": 1.0, "gibbs/lengthscales": [0.8], "gibbs/slopes": [0.5]}
    q = kernel.prepare(_tensors(values), tf.constant([[x]], tf.float64))
    a, b = 0.8 * np.exp(0.5 * x), 0.8 * np.exp(0.5 * y)
    expected = np.sqrt(2 * a * b / (a**2 + b**2)) * np.exp(-((x - y) ** 2) / (a**2 + b**2))
    assert float(kernel.cross(q, tf.constant([[y]], tf.float64))[0, 0]) == pytest.approx(expected, rel=1e-12)


def test_wiener_has_independent_increments():
    """f(t) - f(s) of disjoint intervals are uncorrelated, with the variance of their length."""
    kernel, times = parse("wiener", 1, True), np.array([-2.0, -0.5, 0.4, 1.0, 3.0])
    gram = kernel.gram(kernel.prepare(_tensors({"wiener/variance": 1.5}), tf.constant(times[:, None])))
    steps = np.diff(np.eye(5), axis=0)
    np.testing.assert_allclose(steps @ gram.numpy() @ steps.T, 1.5 * np.diag(np.diff(times)), atol=1e-12)


def test_composition_is_that_of_gpflow():
    """(rbf + linear on inputs 0 and 2) * periodic on 2 + a second rbf on 0 and 1."""
    kernel, (Z, X) = parse("/rbf+linear@0@2/*periodic@-1+rbf@0:2", D, True), _points()
    assert kernel.names == ("rbf", "linear", "periodic", "rbf_2")
    v = _values(kernel)
    assert v["linear/variances"].shape == v["rbf_2/lengthscales"].shape == (2,)
    assert v["rbf/lengthscales"].shape == (3,) and v["periodic/period"].shape == (1,)
    k = gpflow.kernels
    rbf = k.SquaredExponential(v["rbf/variance"], v["rbf/lengthscales"])
    linear = k.Linear(v["linear/variances"], active_dims=[0, 2])
    circle = k.SquaredExponential(v["periodic/variance"], v["periodic/lengthscales"], active_dims=[2])
    second = k.SquaredExponential(v["rbf_2/variance"], v["rbf_2/lengthscales"], active_dims=[0, 1])
    theirs = (rbf + linear) * k.Periodic(circle, v["periodic/period"]) + second
    prepared = kernel.prepare(_tensors(v), tf.constant(Z))
    np.testing.assert_allclose(kernel.cross(prepared, tf.constant(X.T)), theirs(Z, X), atol=1e-12)
    np.testing.assert_allclose(kernel.gram(prepared), theirs(Z), atol=1e-12)
    diagonal = kernel.diagonal(prepared, tf.constant(X.T))[0]
    np.testing.assert_allclose(diagonal, theirs(X, full_cov=False), atol=1e-12)


def test_float32_under_xla_is_float64():
    text = "gibbs*polynomial5"
    kernel, (Z, X) = parse(text, D, True), _points()
    values = _values(kernel)
    results = []
    for dtype, xla in ((tf.float64, False), (tf.float32, True)):

        @tf.function(jit_compile=xla)
        def cross(values, Z, H):
            with tf.GradientTape() as tape:
                tape.watch(H)
                K = kernel.cross(kernel.prepare(values, Z), H)
            return K, tape.gradient(K, H)

        results.append(cross(_tensors(values, dtype), tf.constant(Z, dtype), tf.constant(X.T, dtype)))
    for exact, single in zip(*results, strict=True):
        np.testing.assert_allclose(single, exact, rtol=2e-4, atol=2e-5 * np.abs(exact).max())


@pytest.mark.parametrize("text", COMPOSED)
def test_initial_values_have_the_names_that_prepare_reads(text):
    kernel = with_white(parse(text, D, True))
    assert with_white(kernel) is kernel and kernel == with_white(parse(text, D, True)) and hash(kernel)
    assert parse(str(kernel), D, True) == kernel  # the text of a kernel is one that can be read
    initial = kernel.initial(2.0, 3.0, 1e-3)
    assert {name.partition("/")[0] for name in initial} == set(kernel.names)
    assert set(kernel.constraints()) == {name for name in initial if not name.endswith("/slopes")}
    prepared = kernel.prepare(_tensors(initial), tf.ones((2, D), tf.float64))
    gram = kernel.gram(prepared).numpy()
    assert gram[0, 0] - gram[0, 1] == pytest.approx(1e-3)  # equal rows differ by the white noise alone


def test_only_the_first_part_gets_the_variance():
    initial = parse("rbf*periodic+linear+white", D, True).initial(2.0, 3.0, 1e-3)
    expected = {"rbf/variance": 2.0, "periodic/variance": 1.0, "white/variance": 1e-3}
    assert {name: float(initial[name]) for name in expected} == expected
    np.testing.assert_array_equal(initial["linear/variances"], np.ones(D))
    np.testing.assert_array_equal(initial["rbf/lengthscales"], np.full(D, 3.0))


def _example(name):
    path = Path(__file__).parents[2] / "examples" / "plugins" / f"{name}.py"
    spec = spec_from_file_location(f"example_{name}", path)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_spectral_mixture_of_the_examples_is_right():
    """As a part of a product with another kernel, against the formula by loops."""
    kernel = Product((_example("spectral_mixture").SpectralMixture("mix", D), parse("rbf", D)))
    v, (Z, X) = _values(kernel), _points()
    t = Z[:, None] - X[None]
    mix = np.exp(-2.0 * np.pi**2 * ((t * v["mix/bandwidths"]) ** 2).sum(-1))
    mix *= np.cos(2.0 * np.pi * (t * v["mix/frequencies"]).sum(-1))
    rbf = np.exp(-0.5 * ((t / v["rbf/lengthscales"]) ** 2).sum(-1))
    expected = v["mix/variance"] * v["rbf/variance"] * mix * rbf
    q = kernel.prepare(_tensors(v), tf.constant(Z))
    np.testing.assert_allclose(kernel.cross(q, tf.constant(X.T)), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(kernel.cross_rows(q, tf.constant(X)), expected.T, rtol=1e-9, atol=1e-12)
    same = tf.constant(Z.T[:, None, :])
    np.testing.assert_allclose(
        kernel.between(q, same, same, [[False]])[0], np.diag(kernel.gram(q)), rtol=1e-10
    )


def test_the_laplace_likelihood_of_the_examples_is_right():
    """Its closed expectation against quadrature, and its density integrates to one."""
    likelihood = _example("laplace").Laplace()
    p = {"scale": tf.constant(0.7, tf.float64)}
    f, weights = np.polynomial.hermite_e.hermegauss(180)
    for mean, sd, y in ((0.3, 0.5, 0.0), (-1.0, 2.0, 1.5), (0.2, 0.05, 0.25)):
        terms = -np.abs(y - (mean + sd * f)) / 0.7 - np.log(1.4)
        expected = (weights * terms).sum() / weights.sum()
        args = [tf.constant([[a]], tf.float64) for a in (mean, sd**2, y)]
        found = likelihood.variational_expectations(p, *args)
        np.testing.assert_allclose(found, [expected], atol=3e-3)  # quadrature of a function with a kink
    grid = np.linspace(-20.0, 20.0, 200_001)
    density = np.exp(likelihood.log_prob(p, tf.constant(0.4, tf.float64), tf.constant(grid)))
    assert density.sum() * (grid[1] - grid[0]) == pytest.approx(1.0, abs=1e-6)
