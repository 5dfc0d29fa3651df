"""The charts of the report: their numbers, what becomes of text from records, and the files of Vega."""

import hashlib
import json
import re
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_units import plain_unit
from scipy import stats

from dgpbench.evaluate.metric_table import find_metric
from dgpbench.report.charts import near_range, table_charts
from dgpbench.report.charts import training_curves as traces
from dgpbench.report.charts.picture import MARKERS, THEMES, style_of
from dgpbench.report.charts.table_charts import dots_picture, quantity
from dgpbench.report.charts.vega import panel_html, spec_of
from dgpbench.report.comparison.methods import as_comparison, common_settings, methods
from dgpbench.report.page.frame import HERE, POLICY, vega
from dgpbench.report.page.page_overview import lead, overview, tiles
from dgpbench.store.scan import Unit

BAD = "<img src=x onerror=alert(1)>"


def runs(values, dataset="energy", **fields):
    """Units of several models: {words: a value for each split}."""
    return [
        plain_unit([f"model={words}"], dataset, split, {"test_loglik": v, "test_rmse": -v}, **fields)
        for words, each in values.items()
        for split, v in enumerate(each)
    ]


def compared(units, metric="test_loglik"):
    return as_comparison(methods(units), find_metric(metric))


def layers(spec):
    """Layers with their own encodings, the common ones added."""
    return [{**spec.get("encoding", {}), **layer.get("encoding", {})} for layer in spec["layer"]]


def every_chart(units):
    comparison = compared(units)
    table = comparison.table
    label = quantity(table)
    frames = traces.trace_frame(units, named=lambda r: (r["dataset"], r["model"]))
    return [
        *table_charts.scores(table, label),
        *table_charts.ranks(table),
        *table_charts.heat(table, label),
        *table_charts.seconds(table, label),
        *table_charts.calibration(table),
        *traces.training(frames, ["sgp", "dgp2"]),
    ]


@pytest.fixture(scope="module")
def drawn():
    trace = [[i, 0.1 * i, -100.0 / i] for i in range(1, 40)]
    fields = {"training": {"seconds": 4.0, "trace": trace}, "details": {"pit_histogram": [0.1] * 10}}
    found = [
        *runs({"sgp": [-1.0, -1.2, -1.4], "dgp2": [-0.8, -0.9, -1.3]}, **fields),
        *runs({"sgp": [-2.0, -2.1], "dgp2": [-1.9, -1.8]}, "boston", **fields),
    ]
    return every_chart(found)


def test_every_panel_has_axis_titles_and_fits_its_card(drawn):
    assert len(drawn) == 2 + 1 + 1 + 2 + 2 + 2
    for chart in drawn:
        assert spec_of(chart)["width"] == "container" and spec_of(chart)["autosize"]["type"] == "fit-x"
        for axis in ("x", "y"):
            titles = {
                str(found[axis].get("title") or "") for found in layers(spec_of(chart)) if axis in found
            }
            assert titles - {""}, (chart.title, axis)


def test_scores_hold_the_mean_its_error_and_the_t_interval(drawn):
    chart = next(c for c in drawn if c.title == "energy" and "lowest" in spec_of(c)["data"]["values"][0])
    row = next(r for r in spec_of(chart)["data"]["values"] if r["model"] == "sgp")
    values = np.array([-1.0, -1.2, -1.4])
    error = np.std(values, ddof=1) * np.sqrt(1 / 3 + 1 / 9)  # splits of 90 % and 10 % share rows
    assert [row["value"], row["low"], row["high"]] == pytest.approx(
        [-1.2, -1.2 - error, -1.2 + error], rel=1e-4
    )
    low, high = stats.t.interval(0.95, 2, -1.2, error)
    assert [row["lowest"], row["highest"]] == pytest.approx([low, high], rel=1e-4) and row["splits"] == 3


def test_the_map_is_coloured_by_the_gap_and_an_outlier_takes_no_contrast():
    names = ["linear", "sgp", "gpr", "dgp2", "dgp3", "mc_dropout"]
    values = dict(zip(names, ([-61.0], [-1.0], [-1.1], [-1.2], [-1.3], [-1.4]), strict=True))
    table = compared(runs(values)).table
    gaps = {row["model"]: row["gap"] for row in table_charts.heat(table, "x")[0].rows}
    assert [gaps[n] for n in names] == pytest.approx([1.0, 0.0, 0.25, 0.5, 0.75, 1.0])
    (chart,) = table_charts.scores(table, "x")
    layer = spec_of(chart)["layer"][0]["encoding"]["x"]
    low, high = layer["scale"]["domain"]
    assert -2.0 < low < -1.4 and -1.0 < high < 0.0
    far = [row for row in spec_of(chart)["data"]["values"] if row["far"]]
    assert [row["far"] for row in far] == ["◂ -61"]


def test_near_range_drops_ends_that_are_far_and_no_others():
    assert near_range([-60.7, -1.51, *np.linspace(-0.99, -0.88, 12)]) == (-1.51, -0.88)
    assert near_range([-7.9, *np.linspace(-0.99, -0.8, 12), 0.72]) == (-0.99, -0.8)
    assert near_range([-3.78, -3.2, -3.1, -3.1, -3.0]) == (-3.78, -3.0)
    assert near_range([-61.0, -1.1, -1.0]) == (-1.1, -1.0) and near_range([1.0, 2.0, 4.0]) == (1.0, 4.0)
    assert near_range([7.0]) == (7.0, 7.0) and near_range([7.0, 900.0]) == (7.0, 900.0)
    assert near_range([2.0, 2.0, 2.0, 2.0, 5.0]) == (2.0, 5.0)


def test_a_bar_far_away_does_not_flatten_figure_2_4():
    from matplotlib.figure import Figure

    names = ["linear", "sgp", "gpr", "dgp2", "dgp3"]
    values = dict(
        zip(names, ([-61.0, -62.0], *([-1 - i / 10, -1.02 - i / 10] for i in range(4))), strict=True)
    )
    table = compared(runs(values)).table
    figure = Figure()
    dots_picture(dots_spec(), table).paint(figure, THEMES["light"])
    low, high = figure.axes[0].get_xlim()
    assert -2.0 < low < -1.3 and -1.0 < high < 0.0
    assert any("-61.5" in text.get_text() for text in figure.axes[0].texts)


def dots_spec():
    from dgpbench.papers.figures import FigureSpec

    return FigureSpec("test", "dots", "test")


def test_the_lead_is_the_mean_over_datasets_with_its_interval():
    found = runs({"sgp": [-1.0, -1.2], "dgp2": [-0.8, -0.9]}) + runs(
        {"sgp": [-2.0], "dgp2": [-1.9]}, "boston"
    )
    ahead = lead(compared(found))
    assert (ahead.best, ahead.next, ahead.won, ahead.pairs) == ("dgp2", "sgp", 3, 3)
    assert (
        ahead.gap == pytest.approx(((0.2 + 0.3) / 2 + 0.1) / 2)
        and 0.1 <= ahead.low <= ahead.gap <= ahead.high
    )
    text = tiles(compared(found))
    assert "+0.175 nat per test point" in text and ">clear<" in text and "better on 3 of 3 splits" in text
    lower = lead(compared(found, "test_rmse"))
    assert lower.best == "dgp2" and lower.gap > 0  # errors that are lower are better
    assert lead(compared(runs({"sgp": [-1.0]}))) is None
    assert "none can be called better" in tiles(compared(runs({"sgp": [-1.0]})))


def test_text_of_records_is_data_and_never_markup():
    units = []
    for unit in runs({"sgp": [-1.0, -1.1], "dgp2": [-0.8, -0.9]}):
        unit.record.config["dataset"]["name"] = BAD
        names = {"dataset": BAD, "model": unit.record.model + BAD}
        units.append(Unit(unit.record | names, unit.path))
    html = overview(compared(units), "x")
    assert BAD not in html and "onerror=alert(1)&gt;" in html and "\\u003cimg src=x onerror" in html
    for spec in re.findall(r'<script type="application/json">(.*?)</script>', html):
        held = json.loads(spec)
        held.pop("data")
        for where, text in strings(held):
            assert BAD not in text or where in ("domain", "title"), where  # no field, expression or link


def strings(value, where=""):
    """Every string of a specification with the name of the field that holds it."""
    if isinstance(value, str):
        yield where, value
    for name, inside in value.items() if isinstance(value, dict) else ():
        yield from strings(inside, name)
    for inside in value if isinstance(value, list) else ():
        yield from strings(inside, where)


def test_numbers_that_are_not_finite_do_not_break_a_page():
    units = runs({"sgp": [-1.2, -1.0], "dgp2": [-0.8, -0.9], "dgp3": [-1.0]})
    units[0].record["metrics"]["test_loglik"] = float("-inf")
    units[-1].record["metrics"]["test_loglik"] = float("nan")
    for chart in every_chart(units):
        json.loads(
            re.findall(r"<script[^>]*>(.*?)</script>", panel_html(chart))[0], parse_constant=pytest.fail
        )


def test_settings_that_all_share_are_left_out_of_labels():
    words = {"sgp budget.steps=5": 1, "dgp2 budget.steps=5 model.num_inducing=7": 2, "linear": 3}
    units = [
        plain_unit([f"model={w.split()[0]}", *w.split()[1:]], "energy", 0, {"test_loglik": -v})
        for w, v in words.items()
    ]
    found = methods(units)
    assert common_settings(found) == ["budget.steps=5"] and common_settings(found[:1]) == []
    columns = as_comparison(found, find_metric("test_loglik"), ["budget.steps=5"]).table.spec.columns
    assert columns == ("dgp2 model.num_inducing=7", "linear", "sgp")


def test_a_time_budget_goes_by_its_name():
    from dgpbench.store.differences import command, differences

    record = plain_unit(["model=sgp", "budget=minute"], "energy", 0).record
    assert differences(record) == ["budget=minute"] and " budget=minute " in command(record)
    record = plain_unit(["model=sgp", "budget=minute", "budget.seconds=30"], "energy", 0).record
    assert "budget.seconds=30" in differences(record) and "budget=minute" not in differences(record)


def test_smooth_takes_noise_and_leaves_curves_without_noise():
    rng = np.random.default_rng(0)
    trend = -100.0 / np.arange(1, 201)
    assert np.array_equal(traces.smooth(trend), trend) and np.array_equal(traces.smooth(trend[:5]), trend[:5])
    noisy = trend + rng.normal(size=200)
    assert np.std(traces.smooth(noisy)[20:] - trend[20:]) < 0.4 * np.std(noisy[20:] - trend[20:])
    assert traces.smooth(noisy)[0] == noisy[0]  # where the curve is steep, nothing is averaged


def test_a_training_curve_keeps_its_raw_values_behind():
    rng = np.random.default_rng(1)
    steps = np.arange(1, 301)
    frame = pd.DataFrame(
        {
            "panel": "energy",
            "method": "sgp",
            "split": 0,
            "step": steps,
            "seconds": 0.1 * steps,
            "bound": rng.normal(size=300),
        }
    )
    (chart,) = traces.training(frame, ["sgp"])
    rows = spec_of(chart)["data"]["values"]
    raw, smooth = (np.array([row[name] for row in rows]) for name in ("raw", "y"))
    assert np.std(smooth) < 0.5 * np.std(raw) and len(rows) <= traces.POINTS + 1
    first, second = spec_of(chart)["layer"][:2]
    assert first["encoding"]["y"]["field"] == "raw" and first["mark"]["opacity"] < 0.5
    assert second["encoding"]["y"]["field"] == "y"


@pytest.mark.parametrize("name", ["light", "dark"])
def test_models_look_different_also_to_the_colour_blind(name):
    theme = THEMES[name]
    assert len({style_of(i, theme) for i in range(72)}) == 72 and len(MARKERS) == 9
    for kind in ("normal", "protan", "deutan"):
        seen = {c: lab(seen_by(kind, rgb(c))) for c in theme["colours"]}
        near = {pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in combinations(seen, 2)}
        assert min(near.values()) > 14, (kind, min(near, key=near.get))
    paper = rgb(theme["paper"])
    assert min(contrast(rgb(c), paper) for c in theme["colours"]) > 2.2


def rgb(colour):
    values = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def seen_by(kind, linear):
    """Viénot, Brettel and Mollon (1999): what dichromats see, in linear RGB."""
    if kind == "normal":
        return linear
    to_lms = np.array(
        [[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]]
    )
    lost = {
        "protan": [[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]],
        "deutan": [[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]],
    }[kind]
    return np.clip(np.linalg.inv(to_lms) @ np.array(lost) @ to_lms @ linear, 0, 1)


def lab(linear):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = [np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz / [0.9505, 1.0, 1.089]]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, two):
    a, b = sorted((float(c @ [0.2126, 0.7152, 0.0722]) for c in (one, two)), reverse=True)
    return (a + 0.05) / (b + 0.05)


def test_the_marks_of_the_page_are_as_many_as_those_of_plots():
    script = (HERE / "charts.js").read_text(encoding="utf-8")
    marks = re.search(r"MARKS = \[(.*?)\];", script, re.S)[1]
    assert len(set(re.findall(r'"M[^"]*"', marks))) == len(MARKERS)
    assert f"COLOURS = {len(THEMES['light']['colours'])};" in script


def test_vega_is_what_its_readme_says_and_runs_without_eval():
    folder = Path(HERE) / "vega"
    listed = re.findall(
        r"\| (\S+\.js) \| \S+ [\d.]+ \| ([0-9a-f]{64}) \|", (folder / "README.md").read_text()
    )
    assert len(listed) == 3 and {path.name for path in folder.glob("*.js")} == {name for name, _ in listed}
    for name, digest in listed:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
    assert all((folder / name).is_file() for name in ("LICENSE.vega", "LICENSE.vega-lite"))
    text = vega()
    assert "from 'vega-util'" not in text and "export {" not in text and "</script" not in text
    script = (HERE / "charts.js").read_text(encoding="utf-8")
    assert "ast: true" in script and "load: refused" in script
    assert "unsafe-eval" not in POLICY and "'unsafe-inline'" not in POLICY.partition("script-src")[2]


def test_axes_name_the_quantity():
    table = compared(runs({"sgp": [-1.0], "dgp2": [-0.8]}, training={"seconds": 3.0})).table
    assert quantity(table) == "Test log-likelihood (nat per test point, original units)"
    (chart,) = table_charts.seconds(table, quantity(table))
    titles = {str(found["x"]["title"]) for found in layers(spec_of(chart))}
    assert titles == {"training time on a core (s)"}
    assert spec_of(chart)["layer"][1]["encoding"]["y"]["title"][0] == "Test log-likelihood"


def test_figure_3_8_takes_the_runs_that_the_thesis_compares():
    from dgpbench.papers import figures

    spec = figures.find("3.8")
    names = [
        f"natgrad_dgp2_{way}{end}" for way, end in product(("adam", "ngd_adam", "ngd_all"), ("", "_tuned"))
    ]
    from fnmatch import fnmatch

    pattern = spec.select[0].partition("=")[2]
    assert [n for n in names if fnmatch(n, pattern)] == [n for n in names if n.endswith("_tuned")]
