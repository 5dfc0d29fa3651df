"""Ranks of log-likelihood and RMSE against alpha of power EP, over datasets."""

from __future__ import annotations

import pandas as pd

from dgpbench.report.figures.picture import Nothing, Picture, legend_below, panels

METRICS = {"test_loglik": ("log-likelihood", False), "test_rmse": ("RMSE", True)}  # label, lower is better


def picture(spec, units) -> Picture:
    data = rank_frame(units)
    if data.empty:
        raise Nothing("no dataset has a run with each of two values of alpha on a common split")
    alphas = sorted(data.alpha.unique())
    sets = list(dict.fromkeys(data.dataset))

    def paint(figure, theme):
        for place, (metric, (label, _)) in zip(
            panels(figure, 1, 2, sharey=True)[0], METRICS.items(), strict=True
        ):
            part = data[data.metric == metric]
            for i, (name, line) in enumerate(part.groupby("dataset", sort=False)):
                at = [alphas.index(a) + 0.03 * (i - len(sets) / 2) for a in line.alpha]
                again, number = divmod(i, len(theme["colours"]))  # a colour comes again with another mark
                style = {"color": theme["colours"][number], "marker": "os^"[again % 3], "ms": 4, "lw": 0.8}
                place.plot(at, line["rank"], label=name, **style)
            mean = part.groupby("alpha")["rank"].mean()
            place.plot(range(len(alphas)), mean[alphas], "-", color=theme["ink"], lw=2.5, label="mean rank")
            place.set_xticks(range(len(alphas)), [f"{a:g}" for a in alphas])
            place.set_yticks(range(1, len(alphas) + 1))
            place.set_xlabel("alpha")
            place.set_title(label, loc="left")
        place.invert_yaxis()
        place.set_ylim(len(alphas) + 0.3, 0.7)
        handles, labels = place.get_legend_handles_labels()
        legend_below(figure, handles, labels)

    splits = data.groupby("dataset").splits.first()
    notes = (
        f"{len(sets)} datasets, {splits.min()} to {splits.max()} splits each, means over common ones",
        *(
            f"mean rank of {label}: "
            + ", ".join(
                f"{data[(data.metric == m) & (data.alpha == a)]['rank'].mean():.2f} at {a:g}" for a in alphas
            )
            for m, (label, _) in METRICS.items()
        ),
    )
    return Picture(spec.name, spec.title, data, paint, (7.0, 3.6), notes)


def rank_frame(units) -> pd.DataFrame:
    """One line per metric, dataset and alpha: mean over the splits that all alphas have, and its rank."""
    rows = [
        {
            "dataset": unit.record["dataset"],
            "alpha": unit.record["config"]["inference"]["alpha"],
            "split": unit.record["split"],
            **{metric: unit.record["metrics"][metric] for metric in METRICS},
        }
        for unit in units
        if "alpha" in unit.record["config"]["inference"]
    ]
    out = []
    for name, own in pd.DataFrame(rows, columns=["dataset", "alpha", "split", *METRICS]).groupby("dataset"):
        for metric, (_, lower) in METRICS.items():
            wide = own.pivot_table(index="split", columns="alpha", values=metric).dropna()
            if wide.shape[1] < 2 or not len(wide):
                continue
            mean = wide.mean()
            ranks = mean.rank(ascending=lower)
            out += [
                {
                    "metric": metric,
                    "dataset": name,
                    "alpha": a,
                    "mean": mean[a],
                    "rank": ranks[a],
                    "splits": len(wide),
                }
                for a in mean.index
            ]
    return pd.DataFrame(out, columns=["metric", "dataset", "alpha", "mean", "rank", "splits"])
