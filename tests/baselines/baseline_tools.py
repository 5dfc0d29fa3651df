"""Small configs, data and contexts for the tests of the baselines; a network written again in numpy."""

import numpy as np

from dgpbench.config import compose
from dgpbench.data.split import Split
from dgpbench.engine.context import RunContext, Silent
from dgpbench.engine.platform import tf
from dgpbench.gp.parameters import unconstrain
from dgpbench.inference.gradients import whole_term
from dgpbench.models.base import create


def make(*overrides: str):
    """The model that a command line describes."""
    return create(compose(["engine.xla=false", "device=cpu", *overrides]))


def context(folder, steps=60, seed=0, reporter=None, note=lambda text: None, **kwargs) -> RunContext:
    return RunContext("k", folder, seed, steps, None, reporter or Silent(), note, **kwargs)


def linear_data(N=400, P=1, seed=0) -> Split:
    """y = 0.8 x0 - 0.5 x1 + 0.3 + noise of sd 0.4."""
    rng = np.random.RandomState(seed)
    X = rng.randn(N, 2)
    F = X @ np.array([[0.8], [-0.5]]) + 0.3
    return Split.from_arrays(X, F + 0.4 * rng.randn(N, P))


def least_squares(split) -> tuple[np.ndarray, float]:
    """Coefficients (D + 1, P) and the largest log-likelihood per row of a Gaussian around a plane."""
    F = np.concatenate([split.X_train, np.ones((split.n_train, 1))], 1)
    weights = np.linalg.lstsq(F, split.Y_train, rcond=None)[0]
    var = np.mean((split.Y_train - F @ weights) ** 2)
    return weights, float(-0.5 * (np.log(2 * np.pi * var) + 1.0))


def numpy_network(values: dict, part: str, inputs: np.ndarray) -> np.ndarray:
    """tanh between layers; points are rows here."""
    depth = sum(name.startswith(f"{part}/W") for name in values)
    H = inputs
    for i in range(depth):
        H = H @ values[f"{part}/W{i}"].T + values[f"{part}/b{i}"][:, 0]
        H = np.tanh(H) if i < depth - 1 else H
    return H


def random_values(network, seed=0) -> dict[str, np.ndarray]:
    """Parameters away from the start: biases too are not zero."""
    rng = np.random.RandomState(seed)
    values = network.initial(rng)
    return {n: v if n.endswith("variance") else v + 0.3 * rng.randn(*v.shape) for n, v in values.items()}


def columns(*arrays):
    return [tf.constant(a.T) for a in arrays]


def terms(network, values, X, Y, noise) -> np.ndarray:
    tensors = {name: tf.constant(v) for name, v in values.items()}
    return network.terms(tensors, *columns(X, Y, noise)).numpy()


def gradient_errors(network, values, X, Y, noise) -> list[float]:
    """|automatic - central difference| / (1 + |central difference|) for every unconstrained parameter."""
    term = whole_term(network)
    raw = unconstrain(values, network.constraints())

    def bound(changed):
        tensors = {name: tf.constant(v) for name, v in changed.items()}
        return term(tensors, *columns(X, Y, noise), tf.constant(1.0, tf.float64))

    gradients, errors, step = bound(raw)[1], [], 1e-5
    for name, value in raw.items():
        for index in np.ndindex(value.shape):
            ends = []
            for sign in (1, -1):
                moved = np.array(value)
                moved[index] += sign * step
                ends.append(float(bound(raw | {name: moved})[0]))
            slope = (ends[0] - ends[1]) / (2 * step)
            errors.append(abs(gradients[name].numpy()[index] - slope) / (1 + abs(slope)))
    return errors
