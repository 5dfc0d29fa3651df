"""Mean images along a one-dimensional latent variable (thesis figure 4.7), from runs with parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd

from dgpbench.data.transform import separate
from dgpbench.errors import UserError
from dgpbench.report.figures.picture import Nothing, Picture, panels
from dgpbench.store import read
from dgpbench.store.scan import Unit

if TYPE_CHECKING:
    from dgpbench.models.gp import GPModel

PLACES = np.linspace(-2.0, 2.0, 11)  # of w


def mean_images(unit: Unit) -> np.ndarray:
    """The mean of the GP at PLACES (places, rows, columns); UserError without parameters."""
    values, scaling = separate(read.arrays(unit))
    import dgpbench.engine.platform  # noqa: F401 (TensorFlow without its banner)
    from dgpbench.models import prediction
    from dgpbench.models.base import create

    config = unit.record["config"]
    model = cast("GPModel", create(config))
    model.load_parameters(values)
    assert model.bound is not None
    mean = prediction.along_latent(model.bound, model.posterior_parts(1, 0)[0], PLACES)
    if scaling is not None:
        mean = mean * scaling.y_std + scaling.y_mean
    return mean.reshape(-1, *config["dataset"]["image"])


def usable(unit: Unit) -> bool:
    """Whether the run is of a GP-LVM of images with one latent variable, and here with its parameters."""
    config = unit.record["config"]
    alone = not config["model"].get("use_inputs", True) and config["model"].get("latent_dim") == 1
    return alone and bool(config["dataset"].get("image")) and not unit.is_reference


def picture(spec, units) -> Picture:
    found: dict[str, np.ndarray] = {}
    for unit in filter(usable, units):
        name = (unit.record["experiment"] or unit.record["inference"]).removeprefix(spec.strip)
        try:
            found.setdefault(name, mean_images(unit))
        except UserError:
            continue  # without parameters
    if not found:
        raise Nothing(
            "no run of a GP-LVM of images has its parameters here, and results/reference has none; run "
            "dgpbench run experiment=ones100_ngd and its like"
        )
    frame = pd.DataFrame(
        {"method": name, "w": w, "mean": image.mean(), "sd": image.std()}
        for name, images in found.items()
        for w, image in zip(PLACES, images, strict=True)
    )

    def paint(figure, theme):
        axes = panels(figure, len(found), len(PLACES))
        for place, w in zip(axes[0], PLACES, strict=True):
            place.set_title(f"w = {w:g}", fontsize=7)
        for places, (name, images) in zip(axes, found.items(), strict=True):
            for place, image in zip(places, images, strict=True):
                place.imshow(image, cmap="gray", vmin=0.0, vmax=1.0)
                place.set_xticks([])
                place.set_yticks([])
            places[0].set_ylabel(name)

    return Picture(spec.name, spec.title, frame, paint, (0.8 * len(PLACES), 0.9 * len(found) + 0.6))
