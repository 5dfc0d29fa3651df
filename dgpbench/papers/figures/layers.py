"""How much of each layer is used under the analytic bound: an unused one is turned off.

The share of a layer is the variance over the rows of its GPs' posterior mean, divided by the sum of that and
the mean posterior variance. A layer whose q(u) is the prior has a share of 0.
"""

from __future__ import annotations

import pandas as pd

from dgpbench.report.figures.picture import Nothing, Picture, legend_below, panels


def picture(spec, units) -> Picture:
    data = share_frame(units)
    if data.empty:
        raise Nothing("no run has the shares of its layers; run dgpbench run experiment=analytic_dgp3")
    shown = list(dict.fromkeys(data.panel))

    def paint(figure, theme):
        axes = panels(figure, 1, len(shown), sharey=True)[0]
        for place, name in zip(axes, shown, strict=True):
            for i, (depth, line) in enumerate(data[data.panel == name].groupby("depth")):
                mean = line.groupby("layer").share.mean()
                place.plot(mean.index, mean, "o-", color=theme["colours"][i], label=f"{depth} layers")
            place.set_title(name, loc="left")
            place.set_xlabel("layer")
            place.set_xticks(sorted(data.layer.unique()))
            place.set_ylim(-0.03, 1.03)
            place.grid(axis="y", lw=0.4)
        axes[0].set_ylabel("share of the layer that is used")
        handles, labels = axes[0].get_legend_handles_labels()
        legend_below(figure, handles, labels)

    off = data[data.share < 0.01]
    notes = (f"{len(off)} of {len(data)} layers are turned off (share below 0.01)",)
    return Picture(spec.name, spec.title, data, paint, (3.2 * len(shown) + 0.8, 3.4), notes)


def share_frame(units) -> pd.DataFrame:
    """One line per run and layer."""
    out = []
    for unit in units:
        record = unit.record
        checks = (record.get("training") or {}).get("checks") or {}
        layers = sorted(name for name in checks if name.startswith("layer"))
        mean = record["config"]["model"].get("mean")
        for name in layers:
            signal, rest = checks[name]["signal"], checks[name]["variance"]
            out.append(
                {
                    "panel": f"{record['dataset']}, {'zero' if mean == 'zero' else 'identity'} mean inside",
                    "depth": len(layers),
                    "split": record["split"],
                    "layer": int(name.removeprefix("layer")) + 1,
                    "share": signal / (signal + rest),
                }
            )
    columns = ["panel", "depth", "split", "layer", "share"]
    return pd.DataFrame(out, columns=columns).sort_values(columns[:-1], ignore_index=True)
