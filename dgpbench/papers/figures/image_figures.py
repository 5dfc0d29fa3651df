"""Figures of images: inducing images, latent means, and images given their label."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd

from dgpbench.api.fitted import model_and_split
from dgpbench.data import load_split
from dgpbench.data.scaling import separate
from dgpbench.errors import UserError
from dgpbench.experiment import run_seed
from dgpbench.report.charts import Nothing
from dgpbench.report.charts.picture import Picture, panels
from dgpbench.store import read
from dgpbench.store.scan import Unit

if TYPE_CHECKING:
    from dgpbench.models.gp import GPModel

SHOWN = 6


def pictures(unit) -> tuple[np.ndarray, np.ndarray]:
    """Inducing inputs (M, side, side) before and after training."""
    import dgpbench.engine.platform  # noqa: F401 (TensorFlow without its banner)
    from dgpbench.gp import likelihoods, start

    cfg = unit.record.config
    after = read.parameters(unit)["layer0/Z"]
    split = load_split(cfg, lambda text: None)
    likelihood = likelihoods.choose(cfg, split)
    _, first, _, _ = start.build(cfg, split.X_train, split.Y_train, run_seed(cfg), split.n_train, likelihood)
    before, side = first["layer0/Z"], math.isqrt(after.shape[1])
    return before.reshape(-1, side, side), after.reshape(-1, side, side)


def images_picture(spec, units) -> Picture:
    """Inducing inputs as images (Matthews' figure 4.7), from a run with its parameters: where they started,
    where they ended, and the difference, those that moved furthest first."""
    for unit in units:
        side = math.isqrt(unit.record.sizes["inputs"])
        if side**2 != unit.record.sizes["inputs"] or unit.is_reference:
            continue
        try:
            before, after = pictures(unit)
            break
        except UserError:
            continue  # without parameters
    else:
        raise Nothing(
            "no run of a sparse GP on images has its parameters here: run it, results/reference has none"
        )
    moved = np.sqrt(((after - before) ** 2).sum((1, 2)))
    chosen = np.argsort(-moved)[:SHOWN]
    frame = pd.DataFrame({"inducing_input": np.arange(len(moved)), "distance_moved": moved})

    def paint(figure, theme):
        rows = {"at first": before, "trained": after, "difference": after - before}
        for places, (name, images) in zip(panels(figure, 3, len(chosen)), rows.items(), strict=True):
            for place, i in zip(places, chosen, strict=True):
                place.imshow(images[i], cmap="gray")
                place.set_xticks([])
                place.set_yticks([])
            places[0].set_ylabel(name)

    of = f"{unit.record.dataset}, {unit.record.model}"
    note = f"{of}: the {len(chosen)} that moved furthest of {len(moved)}"
    return Picture(spec.name, spec.title, frame, paint, (1.4 * len(chosen), 4.6), (note,))


PLACES = np.linspace(-2.0, 2.0, 11)  # of w


def mean_images(unit: Unit) -> np.ndarray:
    """The mean of the GP at PLACES (places, rows, columns); UserError without parameters."""
    values, scaling = separate(read.arrays(unit))
    import dgpbench.engine.platform  # noqa: F401 (TensorFlow without its banner)
    from dgpbench.models import prediction
    from dgpbench.models.base import create

    config = unit.record.config
    model = cast("GPModel", create(config))
    model.load_parameters(values)
    assert model.bound is not None
    mean = prediction.along_latent(model.bound, model.posterior_parts(1, 0)[0], PLACES)
    if scaling is not None:
        mean = mean * scaling.y_std + scaling.y_mean
    return mean.reshape(-1, *config["dataset"]["image"])


def usable(unit: Unit) -> bool:
    """Whether the run is of a GP-LVM of images with one latent variable, and here with its parameters."""
    config = unit.record.config
    alone = not config["model"].get("use_inputs", True) and config["model"].get("latent_dim") == 1
    return alone and bool(config["dataset"].get("image")) and not unit.is_reference


def latent_means_picture(spec, units) -> Picture:
    """Mean images along a one-dimensional latent variable (thesis figure 4.7), from runs with parameters."""
    found: dict[str, np.ndarray] = {}
    for unit in filter(usable, units):
        name = (unit.record.experiment or unit.record.inference).removeprefix(spec.strip)
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


ROWS, DRAWS = 8, 9


def samples(unit) -> tuple[np.ndarray, np.ndarray]:
    """Test images (ROWS, rows, columns) with different labels, and draws (ROWS, DRAWS, rows, columns) of the
    mean image given each label."""
    import dgpbench.engine.platform  # noqa: F401 (TensorFlow without its banner)

    model, split = model_and_split(unit)
    _, first = np.unique(split.X_test, axis=0, return_index=True)
    chosen = np.sort(first)[np.linspace(0, len(first) - 1, min(ROWS, len(first))).astype(int)]
    X, Y = split.X_test[chosen], split.Y_test[chosen]
    drawn = model.predict(X, DRAWS, 0).mean.transpose(1, 0, 2)  # rows, draws, pixels
    back = lambda A: (A * split.y_std + split.y_mean).reshape(*A.shape[:-1], *(split.image or ()))  # noqa: E731
    return back(Y), back(drawn)


def label_samples_picture(spec, units) -> Picture:
    """Images given their label (thesis figure 4.5): a test image, then draws of the model for the same
    label."""
    for unit in units:
        if unit.is_reference or not unit.record.config["dataset"].get("image"):
            continue
        try:
            truth, drawn = samples(unit)
            break
        except UserError:
            continue  # without parameters
    else:
        raise Nothing("no run of images has its parameters here: run it, results/reference has none")
    frame = pd.DataFrame(
        {"label": np.arange(len(truth)), "ink": truth.mean((1, 2)), "drawn": drawn.mean((1, 2, 3))}
    )

    def paint(figure, theme):
        axes = panels(figure, len(truth), DRAWS + 1)
        for places, image, others in zip(axes, truth, drawn, strict=True):
            for place, shown in zip(places, (image, *others), strict=True):
                place.imshow(shown, cmap="gray", vmin=0.0, vmax=1.0)
                place.set_xticks([])
                place.set_yticks([])
        axes[0, 0].set_title("test")
        axes[0, 1].set_title("draws", loc="left")

    of = f"{unit.record.dataset}, {unit.record.model}"
    return Picture(spec.name, spec.title, frame, paint, (0.75 * (DRAWS + 1), 0.75 * len(truth) + 0.5), (of,))
