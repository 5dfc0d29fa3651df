"""A run's model as it was trained, with its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from dgpbench.report.figures.picture import Nothing
from dgpbench.store import read
from dgpbench.store.scan import Unit

if TYPE_CHECKING:
    from dgpbench.data import Split
    from dgpbench.models.gp import GPModel


def fitted_model(unit: Unit) -> tuple[GPModel, Split]:
    """Model and split of a run; Nothing where the data are others now, UserError without its parameters."""
    from dgpbench.data import load_split
    from dgpbench.models.base import create

    config = unit.record["config"]
    stored = read.parameters(unit)
    split = load_split(config, lambda text: None)
    if split.data_hash != unit.record["data_hash"]:
        raise Nothing("the data are not those it was trained on; fetch the dataset again")
    model = cast("GPModel", create(config))
    model.load_parameters({name: v for name, v in stored.items() if not name.startswith("scaling/")})
    return model, split
