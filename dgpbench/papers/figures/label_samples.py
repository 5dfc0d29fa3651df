"""Images given their label (thesis figure 4.5): a test image, then draws of the model for the same label."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.api.fitted import model_and_split
from dgpbench.errors import UserError
from dgpbench.report.figures.picture import Nothing, Picture, panels

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


def picture(spec, units) -> Picture:
    for unit in units:
        if unit.is_reference or not unit.record["config"]["dataset"].get("image"):
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

    of = f"{unit.record['dataset']}, {unit.record['model']}"
    return Picture(spec.name, spec.title, frame, paint, (0.75 * (DRAWS + 1), 0.75 * len(truth) + 0.5), (of,))
