"""Hold-out metrics against training time (Matthews' figures 4.3 and 4.4), one point for each budget that was
run, one line for each experiment: the whole trade-off of time and accuracy."""

from __future__ import annotations

import pandas as pd

from dgpbench.report.figures.log_ticks import plain_log_ticks
from dgpbench.report.figures.picture import Nothing, Picture, legend_below, panels
from dgpbench.store.summary import training_seconds

METRICS = {"test_loglik": "hold-out -log p", "test_error": "error rate"}


def points(units, strip: str) -> pd.DataFrame:
    """method, budget, seconds and metrics, averaged over splits, the shortest first."""
    rows = []
    for unit in units:
        record = unit.record
        seconds, metrics = training_seconds(record), record["metrics"]
        if seconds is None or not METRICS.keys() <= metrics.keys():
            continue
        name = (record["experiment"] or f"{record['model']}-{record['inference']}").removeprefix(strip)
        numbers = {"test_loglik": -metrics["test_loglik"], "test_error": metrics["test_error"]}
        rows.append(
            {"method": name, "steps": record["config"]["budget"]["steps"], "seconds": seconds} | numbers
        )
    if not rows:
        raise Nothing("none of these runs has both test_loglik and test_error and a training time")
    return (
        pd.DataFrame(rows)
        .groupby(["method", "steps"], as_index=False)
        .mean()
        .sort_values(["method", "seconds"])
    )


def picture(spec, units) -> Picture:
    frame = points(units, spec.strip)
    single = [name for name, part in frame.groupby("method") if len(part) < 2]
    notes: tuple[str, ...] = ("seconds of vgp, ep_gpc and gfitc include compilation, those of others do not",)
    notes += (
        (f"one budget only of {', '.join(single)}; run more: budget.steps=10,30,100,...",) if single else ()
    )

    def paint(figure, theme):
        places = panels(figure, 2, 1, sharex=True)[:, 0]
        lines = []
        for i, (_, part) in enumerate(frame.groupby("method")):
            style = {
                "color": theme["colours"][i % 8],
                "ls": ("-", "--", ":")[i // 8 % 3],
                "marker": ".",
                "lw": 1,
            }
            for place, metric in zip(places, METRICS, strict=True):
                (line,) = place.plot(part.seconds, part[metric], **style)
            lines.append(line)
        for place, text in zip(places, METRICS.values(), strict=True):
            place.set_ylabel(text)
            place.set_xscale("log")
        plain_log_ticks(places[1].xaxis, *places[1].get_xlim())  # of both: they share their axis
        places[1].set_xlabel("training seconds")
        legend_below(figure, lines, [name for name, _ in frame.groupby("method")])

    return Picture(spec.name, spec.title, frame, paint, (7.0, 6.0), notes)
