"""What methods with psi statistics share: Gaussian inputs of the layers behind the first, in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dgpbench.config.kernel_names import Term, read
from dgpbench.inference.base import Bound, Method, Numerics, Update
from dgpbench.inference.fits import gp_layers_only
from dgpbench.inference.variational import ADAM_FIELDS, adam_rates

WITH_PSI = ("rbf", "linear", "white")


@dataclass(frozen=True)
class Projected(Bound):
    """Layers behind the first are prepared as gp/psi.py reads them, in float64: the form `quad`."""

    exact: ClassVar[bool] = True

    @property
    def tallest(self) -> int:
        behind = [layer.num_inducing for layer in self.model.layers[1:]]
        return max([super().tallest, *(M * (M + 1) // 2 for M in behind)])

    def forms(self, batch: int, exact: bool) -> tuple[str, ...]:
        first = self.model.layers[0].form(batch * self.samples, exact)
        return (first, *("quad" for _ in self.model.layers[1:]))

    def prepare(self, values, numerics: Numerics, key=None, rows=None) -> tuple[Any, dict]:
        return super().prepare(
            values, numerics._replace(forms=numerics.forms or self.forms(1, True)), key, rows
        )


class ProjectedMethod(Method):
    """What these methods share: Adam, and kernels that have psi statistics behind the first layer."""

    fields = ADAM_FIELDS

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        own = self.settings["name"]
        if reason := gp_layers_only(own, model):
            return reason
        for name in ("output_gps", "inner_gps"):
            if model.get(name):
                return (
                    f"model.{name}={model[name]} makes correlated outputs, and inference={own} takes each by "
                    f"itself; set model.{name}=null or use inference=dsvi"
                )
        if self.cfg["precision"] == "float32":
            return f"inference={own} takes differences too small for float32; use precision=mixed or float64"
        return kernels_without_psi(own, model, "inference=alpha")

    def update(self, bound: Bound) -> Update:
        from dgpbench.inference.updates.adam import Adam

        return Adam()

    def rates(self) -> dict[str, float]:
        return adam_rates(self.settings["adam"])


def kernels_without_psi(own: str, model: Mapping[str, Any], instead: str) -> str | None:
    """Why a kernel behind the first layer has no psi statistics, and what fits; None where all have."""
    overrides = model.get("layer_overrides") or {}
    for i in range(1, len(model.get("layers", ()))):
        kernel = overrides.get(str(i), {}).get("kernel", model["kernel"])
        if not has_psi(read(kernel)):
            return (
                f"inference={own} averages kernels over Gaussian inputs, which has a closed form for "
                f"{', '.join(WITH_PSI[:-1])} and {WITH_PSI[-1]} kernels and their sums; layer {i} has "
                f"{kernel}: use model.kernel=rbf, or {instead}"
            )
    return None


def has_psi(term: Term) -> bool:
    """Whether gp/psi.py has the statistics of a kernel."""
    parts = term.terms if term.op == "+" and not term.dims else (term,)
    return all(part.op in WITH_PSI and not part.dims for part in parts)
