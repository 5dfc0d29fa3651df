"""Stripes and arrow (Lindinger et al. 2020): the joint Gaussian of joint.py without most of its covariances.

Kept are those of a GP's own inducing outputs, of GPs at the same position in different hidden layers
(stripes), and of every hidden GP with the output GPs (arrow). In the order of positions, the outputs last,
the Cholesky factor of S has the zeros of S: R has a block for each position. With two layers there is only
the arrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dgpbench.errors import UserError
from dgpbench.inference.joint import Joint, JointGaussian, Marginalised

if TYPE_CHECKING:
    from dgpbench.gp.deep_gp import DeepGP


@dataclass(frozen=True)
class Star(Joint):
    @property
    def groups(self) -> int:
        return self.model.layers[0].output_dim


@dataclass(frozen=True)
class MarginalisedStar(Marginalised):
    @property
    def groups(self) -> int:
        return self.model.layers[0].output_dim


class StripesAndArrow(JointGaussian):
    def bound(self, model: DeepGP) -> Joint:
        widths = [layer.output_dim for layer in model.layers[:-1]]
        if len(set(widths)) > 1:
            raise UserError(
                f"inference=star couples GPs at the same position of hidden layers, which have "
                f"{', '.join(map(str, widths))} of them; set model.width, or use inference=joint"
            )
        return super().bound(model)

    def kinds(self) -> tuple[type[Joint], type[Joint]]:
        return Star, MarginalisedStar
