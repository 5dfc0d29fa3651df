"""Priors of hyperparameters as densities of their logarithms: what SGPMC samples, and what variational
methods add to their bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dgpbench.errors import UserError
from dgpbench.gp.lazy import lazy

if TYPE_CHECKING:
    import tensorflow as tf

    from dgpbench.gp import parameters
    from dgpbench.gp.deep_gp import DeepGP
else:
    tf, parameters = lazy("tensorflow"), lazy("dgpbench.gp.parameters")

Prior = tuple[str, tuple[float, ...]]  # family and arguments
HYPER = -1  # key of the hyperparameters' part among the penalties of layers
LOG_2PI = math.log(2.0 * math.pi)


def log_prior(prior: Prior, t: tf.Tensor) -> tf.Tensor:
    """Return the log density of t = log theta, summed over its entries, including the Jacobian theta."""
    family, arguments = prior
    t, more = tf.identity(t), tf.identity(t)
    if family == "lognormal":
        location, scale = arguments
        each = -0.5 * (tf.square((t - location) / scale) + LOG_2PI) - math.log(scale)
    elif family == "half_normal":
        (scale,) = arguments
        each = t - tf.exp(2.0 * more) / (2.0 * scale**2) + 0.5 * math.log(2.0 / math.pi) - math.log(scale)
    else:
        shape, rate = arguments
        sign = 1.0 if family == "gamma" else -1.0  # theta of an inverse gamma: 1 / theta is gamma
        each = sign * shape * t - rate * tf.exp(sign * more) + shape * math.log(rate) - math.lgamma(shape)
    return tf.reduce_sum(each)


def penalty_of(priors: tuple[tuple[str, Prior], ...], values) -> dict[int, tf.Tensor]:
    """Return -log p(theta) of log theta, as a part of `Bound.penalty`; empty without priors."""
    each = [log_prior(prior, tf.math.log(values[name])) for name, prior in priors]
    return {HYPER: -sum(each[1:], each[0])} if each else {}


def priors_of(priors: Mapping[str, list], model: DeepGP) -> tuple[tuple[str, Prior], ...]:
    """Return the priors of a config by parameter; raise UserError if the model has no such parameter.

    White noise in the kernel of an inner layer is the noise between layers (model.inner_noise), and has none.
    """
    last = f"layer{len(model.layers) - 1}/"
    known = [name for name, constraint in model.constraints().items() if constraint != parameters.LOWER]
    belongs = {
        "lengthscale": lambda name: name.endswith("/lengthscales"),
        "kernel_variance": lambda name: (
            "/kernel/" in name
            and name.endswith("/variance")
            and (name.startswith(last) or "/white/" not in name)
        ),
        "likelihood_variance": lambda name: name == "likelihood/variance",
    }
    out = []
    for field, (family, *arguments) in priors.items():
        names = [name for name in known if belongs[field](name)]
        if not names:
            raise UserError(f"model.priors.{field}: this kernel and likelihood have no such parameter")
        out += [(name, (family, tuple(arguments))) for name in names]
    return tuple(out)
