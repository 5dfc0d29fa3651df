"""Figures of records alone: ranks against alpha, budgets, gains of sampling, layers, curves, intensities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.evaluate.metric_table import LOGLIK
from dgpbench.evaluate.metrics import ERROR_RATE, RMSE
from dgpbench.report.charts import Nothing
from dgpbench.report.charts.picture import Picture, legend_below, panels, plain_log_ticks
from dgpbench.report.charts.training_curves import trace_frame
from dgpbench.store import read
from dgpbench.store.scan import Unit

METRICS = {LOGLIK: ("log-likelihood", False), RMSE: ("RMSE", True)}  # label, lower is better


def alpha_picture(spec, units) -> Picture:
    """Ranks of log-likelihood and RMSE against alpha of power EP, over datasets."""
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
            "dataset": unit.record.dataset,
            "alpha": unit.record.config["inference"]["alpha"],
            "split": unit.record.split,
            **{metric: unit.record.metrics[metric] for metric in METRICS},
        }
        for unit in units
        if "alpha" in unit.record.config["inference"]
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


def layers_picture(spec, units) -> Picture:
    """How much of each layer is used under the analytic bound: an unused one is turned off.

    The share of a layer is the variance over the rows of its GPs' posterior mean, divided by the sum of that
    and the mean posterior variance. A layer whose q(u) is the prior has a share of 0.
    """
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
        mean = record.config["model"].get("mean")
        for name in layers:
            signal, rest = checks[name]["signal"], checks[name]["variance"]
            out.append(
                {
                    "panel": f"{record.dataset}, {'zero' if mean == 'zero' else 'identity'} mean inside",
                    "depth": len(layers),
                    "split": record.split,
                    "layer": int(name.removeprefix("layer")) + 1,
                    "share": signal / (signal + rest),
                }
            )
    columns = ["panel", "depth", "split", "layer", "share"]
    return pd.DataFrame(out, columns=columns).sort_values(columns[:-1], ignore_index=True)


KINDS = {
    "clamped": "trained minus clamped inducing inputs, both sampled",
    "gaussian": "sampled minus Gaussian approximation",
}


def kind_of(config: dict) -> str:
    """sampled, clamped (sampled with inducing inputs where they started) or gaussian."""
    inference = config["inference"]
    if inference["name"] != "sgpmc":
        return "gaussian"
    return "clamped" if inference["start"]["inducing"] == "fixed" else "sampled"


def pairs(units) -> list[dict]:
    """against, dataset, M, gain: the differences of single pairs of runs."""
    found: dict[tuple, dict[str, float]] = {}
    for unit in units:
        record, config = unit.record, unit.record.config
        if config["model"].get("layers") != ["gp"] or LOGLIK not in record.metrics:
            continue
        place = record.dataset, config["model"]["num_inducing"], record.split, config["seed"]
        found.setdefault(place, {})[kind_of(config)] = record.metrics[LOGLIK]
    return [
        {"against": kind, "dataset": place[0], "M": place[1], "gain": each["sampled"] - each[kind]}
        for place, each in found.items()
        for kind in KINDS
        if "sampled" in each and kind in each
    ]


def differences(units) -> pd.DataFrame:
    """against, dataset, M, mean difference of the test log-likelihood, its standard error, pairs."""
    import pandas as pd

    if not (rows := pairs(units)):
        raise Nothing(
            "no pair of runs of model=sgp with inference=sgpmc and with another inference, or with "
            "inference.start.inducing=fixed, on one split with one model.num_inducing"
        )
    return (
        pd.DataFrame(rows)
        .groupby(["against", "dataset", "M"])["gain"]
        .agg(["mean", "sem", "count"])
        .reset_index()
        .rename(columns={"mean": "difference", "sem": "error", "count": "pairs"})
    )


def gains_picture(spec, units) -> Picture:
    """What sampling and trained inducing inputs gain on held-out rows, by the number of inducing points
    (Matthews' figure 5.1): paired differences of runs on the same dataset and split."""
    frame = differences(units)

    def paint(figure, theme):
        for place, kind in zip(panels(figure, 1, len(KINDS))[0], KINDS, strict=True):
            place.axhline(0.0, color=theme["faint"])
            for i, (name, part) in enumerate(frame[frame.against == kind].groupby("dataset")):
                colour = theme["colours"][i % 8]
                place.errorbar(part.M, part.difference, part.error, color=colour, marker=".", label=name)
                place.legend()
            place.set_title(KINDS[kind], loc="left", fontsize=9)
            place.set_xlabel("inducing points")
            place.set_ylabel("difference in test log-likelihood")

    return Picture(spec.name, spec.title, frame, paint, (9.0, 3.6))


BUDGETS_METRICS = {LOGLIK: "hold-out -log p", ERROR_RATE: "error rate"}


def points(units, strip: str) -> pd.DataFrame:
    """method, budget, seconds and metrics, averaged over splits, the shortest first."""
    rows = []
    for unit in units:
        record = unit.record
        seconds, metrics = record.training_seconds, record.metrics
        if seconds is None or not BUDGETS_METRICS.keys() <= metrics.keys():
            continue
        name = (record.experiment or f"{record.model}-{record.inference}").removeprefix(strip)
        numbers = {LOGLIK: -metrics[LOGLIK], ERROR_RATE: metrics[ERROR_RATE]}
        rows.append({"method": name, "steps": record.config["budget"]["steps"], "seconds": seconds} | numbers)
    if not rows:
        raise Nothing(f"none of these runs has both {LOGLIK} and {ERROR_RATE} and a training time")
    return (
        pd.DataFrame(rows)
        .groupby(["method", "steps"], as_index=False)
        .mean()
        .sort_values(["method", "seconds"])
    )


def budgets_picture(spec, units) -> Picture:
    """Hold-out metrics against training time (Matthews' figures 4.3 and 4.4), one point for each budget that
    was run, one line for each experiment: the whole trade-off of time and accuracy."""
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
            for place, metric in zip(places, BUDGETS_METRICS, strict=True):
                (line,) = place.plot(part.seconds, part[metric], **style)
            lines.append(line)
        for place, text in zip(places, BUDGETS_METRICS.values(), strict=True):
            place.set_ylabel(text)
            place.set_xscale("log")
        plain_log_ticks(places[1].xaxis, *places[1].get_xlim())  # of both: they share their axis
        places[1].set_xlabel("training seconds")
        legend_below(figure, lines, [name for name, _ in frame.groupby("method")])

    return Picture(spec.name, spec.title, frame, paint, (7.0, 6.0), notes)


TITLES = ("all of it", "from where the worst ends", "around the best")
MARGIN = 0.05


def limits(data: pd.DataFrame) -> list[tuple[float, float]]:
    """Lower and upper end of the three ranges."""
    ends = data.sort_values("step").groupby("method").bound.last().sort_values()
    top, low = float(data.bound.max()), float(data.bound.min())
    near = float(ends.iloc[-min(2, len(ends))])  # the second best
    size = max(top - near, 0.01 * (top - float(ends.iloc[0])), 1e-6)
    out = [(low, top), (float(ends.iloc[0]), top), (near - 2.0 * size, top)]
    return [(a - MARGIN * max(b - a, 1e-6), b + MARGIN * max(b - a, 1e-6)) for a, b in out]


def ranges_picture(spec, units) -> Picture:
    """The same training curves in three ranges of the bound (thesis figure 4.8): all, later, around the
    best."""
    data = trace_frame(units, strip=spec.strip).dropna(subset=["bound"])
    if data.empty:
        raise Nothing("these records hold no training trace")
    methods = sorted(set(data.method))

    def paint(figure, theme):
        axes = panels(figure, 1, 3)[0]
        for place, title, (low, high) in zip(axes, TITLES, limits(data), strict=True):
            for method, colour in zip(methods, theme["colours"], strict=False):
                line = data[data.method == method].sort_values("step")
                place.plot(line.step, line.bound, color=colour, lw=1.2, label=method)
            place.set_ylim(low, high)
            place.set_title(title, loc="left")
            place.set_xlabel("step")
            place.grid(lw=0.4)
        axes[0].set_ylabel("bound (nat)")
        legend_below(figure, *axes[0].get_legend_handles_labels())

    ends = data.sort_values("step").groupby("method").bound.last()
    note = "last bound: " + ", ".join(f"{name} {value:,.0f}" for name, value in ends.items())
    return Picture(spec.name, spec.title, data, paint, (9.6, 3.2), (note,))


SCALES = ("lengthscales", "variance")  # hyperparameters whose draws are shown


@dataclass(frozen=True)
class Intensity:
    """Bins of one run: midpoints x (N, D), counts y (N,), rate and band (N,); draws of hyperparameters."""

    dataset: str
    label: str
    x: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    scales: dict[str, np.ndarray]


def intensity_picture(spec, units) -> Picture:
    """Intensities of point processes with their credible band: a curve over time, or a map of the plane.

    Runs of one dataset stand side by side; for a sampler of hyperparameters their draws stand below.
    """
    runs, notes = _runs(units)
    data = pd.concat([_frame(run) for run in runs], ignore_index=True)
    below = any(run.scales for run in runs)

    def paint(figure, theme):
        axes = panels(figure, 1 + below, len(runs))
        for j, run in enumerate(runs):
            (_curve if run.x.shape[1] == 1 else _map)(figure, axes[0, j], run, theme)
            axes[0, j].set_title(f"{run.dataset}: {run.label}", loc="left")
            if below:
                _scales(axes[1, j], run, theme)

    size = (3.4 * len(runs) + 0.4, 2.6 * (1 + below) + 0.5)
    notes = (
        "rate for a unit of length or area: posterior mean and 90 % band; ticks: bins with events",
        *notes,
    )
    return Picture(spec.name, spec.title, data, paint, size, notes)


def _runs(units) -> tuple[list[Intensity], tuple[str, ...]]:
    found: dict[str, Intensity] = {}
    notes = []
    for unit in sorted(units, key=lambda u: (u.record.dataset, u.record.experiment or "")):
        if unit.record.config_key in found or unit.is_reference:
            continue
        try:
            found[unit.record.config_key] = _intensity(unit)
        except UserError as error:
            notes.append(f"{unit.record.dataset} {_label(unit)} is left out: {error}")
    if not found:
        raise Nothing(
            "none of these runs has the rates of counts beside it: records of results/reference come without "
            "them, so run the experiment here"
        )
    return list(found.values()), tuple(notes)


def _label(unit: Unit) -> str:
    record = unit.record
    experiment = record.experiment or f"{record.model}-{record.inference}"
    return experiment.removeprefix("matthews2016_").removeprefix(f"{record.dataset}_")


def _intensity(unit: Unit) -> Intensity:
    table = read.predictions(unit)
    if "rate_mean" not in table:
        raise UserError("its predictions have no rates, which counts alone have")
    x = np.stack([table[name] for name in sorted(table) if name.startswith("x_")], 1)
    order = np.lexsort(x.T[::-1])
    y, mean, low, high = (table[name][order] for name in ("y", "rate_mean", "rate_q05", "rate_q95"))
    draws = {name: v for name, v in read.parameters(unit).items() if name.startswith("draws/")}
    scales = {s: v.reshape(len(v), -1)[:, 0] for s in SCALES for n, v in draws.items() if n.endswith("/" + s)}
    return Intensity(unit.record.dataset, _label(unit), x[order], y, mean, low, high, scales)


def _frame(run: Intensity) -> pd.DataFrame:
    """dataset, run, x_0 (x_1), y, rate, low, high."""
    places = {f"x_{i}": run.x[:, i] for i in range(run.x.shape[1])}
    rates = {"y": run.y, "rate": run.mean, "low": run.low, "high": run.high}
    return pd.DataFrame({"dataset": run.dataset, "run": run.label} | places | rates)


def _curve(figure, axes, run: Intensity, theme: dict) -> None:
    colour = theme["colours"][0]
    axes.fill_between(run.x[:, 0], run.low, run.high, color=colour, alpha=0.25, lw=0)
    axes.plot(run.x[:, 0], run.mean, color=colour)
    seen = run.x[run.y > 0, 0]
    axes.plot(seen, np.zeros_like(seen), "|", color=theme["ink"], ms=6)
    axes.set_ylim(0, None)
    axes.set_ylabel("rate")


def _map(figure, axes, run: Intensity, theme: dict) -> None:
    k = round(np.sqrt(len(run.x)))
    if k * k != len(run.x):
        raise Nothing(f"{run.dataset}: {len(run.x)} bins make no square; score every bin (protocol=whole)")
    ends = run.x.min(0), run.x.max(0)
    extent = (ends[0][0], ends[1][0], ends[0][1], ends[1][1])
    image = axes.imshow(run.mean.reshape(k, k).T, origin="lower", extent=extent, cmap="viridis")
    figure.colorbar(image, ax=axes, shrink=0.8)
    seen = run.x[run.y > 0]
    axes.plot(seen[:, 0], seen[:, 1], ".", color=theme["paper"], ms=1.5)


def _scales(axes, run: Intensity, theme: dict) -> None:
    if len(run.scales) < len(SCALES):
        axes.set_visible(False)
        return
    axes.loglog(*(run.scales[name] for name in SCALES), ".", ms=2, alpha=0.5, color=theme["colours"][1])
    axes.set_xlabel("lengthscale")
    axes.set_ylabel("kernel variance")
