"""Inducing inputs as images (Matthews' figure 4.7), from a run with its parameters: where they started, where
they ended, and the difference, those that moved furthest first."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from dgpbench.data import load_split
from dgpbench.errors import UserError
from dgpbench.experiment import run_seed
from dgpbench.report.figures.picture import Nothing, Picture, panels
from dgpbench.store import read

SHOWN = 6


def pictures(unit) -> tuple[np.ndarray, np.ndarray]:
    """Inducing inputs (M, side, side) before and after training."""
    import dgpbench.engine.platform  # noqa: F401 (TensorFlow without its banner)
    from dgpbench.gp import likelihoods, start

    cfg = unit.record["config"]
    after = read.parameters(unit)["layer0/Z"]
    split = load_split(cfg, lambda text: None)
    likelihood = likelihoods.choose(cfg, split)
    _, first, _, _ = start.build(cfg, split.X_train, split.Y_train, run_seed(cfg), split.n_train, likelihood)
    before, side = first["layer0/Z"], math.isqrt(after.shape[1])
    return before.reshape(-1, side, side), after.reshape(-1, side, side)


def picture(spec, units) -> Picture:
    for unit in units:
        side = math.isqrt(unit.record["sizes"]["inputs"])
        if side**2 != unit.record["sizes"]["inputs"] or unit.is_reference:
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

    of = f"{unit.record['dataset']}, {unit.record['model']}"
    note = f"{of}: the {len(chosen)} that moved furthest of {len(moved)}"
    return Picture(spec.name, spec.title, frame, paint, (1.4 * len(chosen), 4.6), (note,))
