"""What sampling and trained inducing inputs gain on held-out rows, by the number of inducing points
(Matthews' figure 5.1): paired differences of runs on the same dataset and split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dgpbench.report.figures.picture import Nothing, Picture, panels

if TYPE_CHECKING:
    import pandas as pd

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
        record, config = unit.record, unit.record["config"]
        if config["model"].get("layers") != ["gp"] or "test_loglik" not in record["metrics"]:
            continue
        place = record["dataset"], config["model"]["num_inducing"], record["split"], config["seed"]
        found.setdefault(place, {})[kind_of(config)] = record["metrics"]["test_loglik"]
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


def picture(spec, units) -> Picture:
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
