"""The highest fidelity of a one-dimensional set, predicted by each model, beside the functions themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.data.generated.fidelities import SETS
from dgpbench.papers.figures.draws import kept_draws
from dgpbench.report.figures.picture import Nothing, Picture, legend_below, panels


def picture(spec, units) -> Picture:
    found, left_out = kept_draws(units)
    runs = [run for name, each in found.items() if name in SETS and SETS[name].dim == 1 for run in each]
    if not runs:
        raise Nothing("it needs runs on a set of fidelities with one input, dataset=mf_sine")
    data = pd.concat([_frame(run) for run in runs])

    def paint(figure, theme):
        for place, run in zip(panels(figure, 1, len(runs), sharey=True)[0], runs, strict=True):
            line, functions = data[data.run == run.label], SETS[run.dataset].levels
            low, high = SETS[run.dataset].box[0]
            x = np.linspace(low, high, 400)[:, None]
            for level, function in enumerate(functions):
                style = (
                    {"color": theme["ink"], "lw": 1}
                    if level == len(functions) - 1
                    else {"color": theme["faint"]}
                )
                place.plot(x[:, 0], function(x), label=f"level {level}", zorder=0, **style)
            colour = theme["colours"][1]
            place.fill_between(line.x, line.low, line.high, color=colour, alpha=0.25, lw=0, label="95 %")
            place.plot(line.x, line["mean"], color=colour, lw=1.2, label="predicted")
            place.set_title(run.label, loc="left")
            place.set_xlabel("x")
        handles, labels = place.get_legend_handles_labels()
        legend_below(figure, handles, labels)

    return Picture(spec.name, spec.title, data, paint, (3.0 * len(runs) + 0.4, 3.2), tuple(left_out))


def _frame(run) -> pd.DataFrame:
    """Mean and central 95 % of the draws at each kept test row, by x."""
    low, high = np.quantile(run.draws, (0.025, 0.975), axis=1)
    columns = {
        "run": run.label,
        "x": run.x[:, 0],
        "y": run.y,
        "mean": run.draws.mean(1),
        "low": low,
        "high": high,
    }
    return pd.DataFrame(columns).sort_values("x", ignore_index=True)
