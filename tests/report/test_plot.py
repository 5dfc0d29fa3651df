"""Pictures of runs: which runs a user's words name, and the numbers in the panels."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from report_units import plain_unit, write

from dgpbench.cli import main
from dgpbench.errors import UserError
from dgpbench.report.charts import MOST_TICKS, Axis, Layer, Nothing, Panel, log_ticks, run_charts, thin
from dgpbench.report.charts.picture import THEMES, columns_for, draw_panel, legend_below
from dgpbench.report.charts.run_charts import run_panels, run_picture
from dgpbench.report.charts.training_curves import floor_of, trace_frame
from dgpbench.report.charts.vega import spec_of
from dgpbench.report.comparison.methods import overview_pictures
from dgpbench.report.run_files import choose
from dgpbench.store.scan import Unit
from dgpbench.store.write import write_unit

BINS = {"count": [3, 7], "confidence": [0.6, 0.9], "accuracy": [0.5, 1.0]}
TRACE = [[1, 0.1, -50.0], [25, 0.6, -20.0], [40, 0.8, -12.0], [50, 1.0, -10.0]]


def run(results, model="sgp", split=0, **fields) -> Unit:
    rng = np.random.default_rng(split)
    mean = np.sort(rng.normal(size=30))
    table = {"row": np.arange(30), "output": np.zeros(30, np.int16), "y": mean + 0.1, "mean": mean}
    table |= {
        name: mean + shift for name, shift in (("q05", -1.0), ("q25", -0.2), ("q75", 0.2), ("q95", 1.0))
    }
    table["pit"] = np.linspace(0, 1, 30)
    training = {"seconds": 1.0, "trace": TRACE, "steps": 50}
    made = plain_unit(
        [f"model={model}"], "energy", split, {"test_loglik": -1.0}, training=training, **fields
    ).record
    return write_unit(results, made, predictions=table)


def test_a_run_goes_by_folder_record_key_or_filters(tmp_path):
    first, second = run(tmp_path), run(tmp_path, split=1)
    key = first.record["key"]
    for words in ([str(first.folder)], [str(first.path)], [key[:8]], ["split=0", "dataset=energy"]):
        (found,) = choose(words, tmp_path)
        assert found.record["key"] == key and found.record["training"]["trace"]
    assert {u.record["key"] for u in choose(["model=sgp"], tmp_path)} == {key, second.record["key"]}
    for words, message in (
        ([], "name a run"),
        (["energy"], "'energy' is no run: give its folder"),
        (["00000000"], "no run of .* matches 00000000"),
        (["modl=sgp"], "no field 'modl' to filter by; did you mean 'model'"),
    ):
        with pytest.raises(UserError, match=message):
            choose(words, tmp_path)


def test_traces_that_others_wrote_badly_are_drawn_as_far_as_they_go(tmp_path):
    """Entries without a step are left out, and in pictures of one run those with fewer numbers."""
    bad = [[None, 0.2, -40.0], [], [30], [35, 0.7, None]]
    training = {"seconds": None, "cpu_seconds": None, "steps": None, "trace": [*TRACE[:2], *bad, *TRACE[2:]]}
    unit = plain_unit(["model=sgp"], "energy", 0, {"test_loglik": -1.0}, training=training)
    found = trace_frame([unit])
    assert found.step.tolist() == [1, 25, 30, 35, 40, 50] and found.cpu_seconds.isna().all()
    assert found.bound.dropna().tolist() == [line[2] for line in TRACE]
    ((_, chart),), _ = run_panels(write_unit(tmp_path, unit.record))
    assert chart.title.startswith("Training: 50 steps")
    drawn = run_picture(unit, ("curves",))
    assert drawn.data.step.tolist() == [1, 25, 35, 40, 50] and drawn.image()


def drawn_axes(panel):
    from matplotlib.figure import Figure

    place = Figure().subplots()
    draw_panel(place, panel, THEMES["light"])
    return place


def test_panels_show_the_numbers_of_the_run():
    columns = {"y": np.array([0.0, 1.0, 5.0]), "mean": np.array([0.0, 1.0, 2.0])}
    columns |= {"q05": columns["mean"] - 1, "q95": columns["mean"] + 1}
    columns |= {"q25": columns["mean"] - 0.5, "q75": columns["mean"] + 0.5}
    place = drawn_axes(run_charts.intervals(columns))
    assert "67 % of 3 inside 90 %" in place.get_title(loc="left")
    outer, inner, inside, outside = place.collections
    assert [line[:, 1].tolist() for line in outer.get_segments()] == [[-1, 1], [0, 2], [1, 3]]
    assert [line[:, 1].tolist() for line in inner.get_segments()] == [[-0.5, 0.5], [0.5, 1.5], [1.5, 2.5]]
    assert inside.get_offsets().tolist() == [[0, 0], [1, 1]] and outside.get_offsets().tolist() == [[2, 5]]
    shares = run_charts.pit_shares(np.array([0.01, 0.02, 0.51, 0.99]))
    assert list(shares) == [0.5, 0.0, 0.25, 0.0, 0.25]  # few rows, few bins
    assert len(run_charts.pit_shares(np.linspace(0, 1, 1000))) == 20
    place = drawn_axes(run_charts.pit(shares))
    bars = [bar.get_y() + max(bar.get_height(), 0.0) for bar in place.patches]
    assert bars == pytest.approx(5 * shares) and place.lines[0].get_ydata() == [1.0, 1.0]
    place = drawn_axes(run_charts.confusion(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])))
    assert [(*text.xy, text.get_text()) for text in place.texts] == [
        (1, 1, "1"),
        (2, 2, "1"),
        (0, 0, "1"),
        (1, 0, "1"),
    ]
    place = drawn_axes(
        run_charts.over_x(np.array([1.0, 0.0]), np.array([5.0, 6.0]), np.array([[1.0, 3.0], [0.0, 2.0]]))
    )
    assert place.lines[0].get_xydata().tolist() == [[0.0, 1.0], [1.0, 2.0]]  # medians in the order of x
    assert len(thin(10_000, 100)) == 100 and thin(3, 100).tolist() == [0, 1, 2]


def test_both_ways_of_drawing_show_the_same_numbers():
    """Of a page and of a picture: the same points, intervals and ends of the axes."""
    rows = [{"model": m, "at": v, "low": v - 1, "high": v + 2} for m, v in (("a", 1.0), ("b", 3.0))]
    layers = (Layer("rule", "low", "model", x2="high"), Layer("point", "at", "model"))
    panel = Panel("t", rows, Axis("score", (-1.0, 6.0)), Axis("model", names=("a", "b")), layers, ("a", "b"))
    place, spec = drawn_axes(panel), spec_of(panel)
    rule, point = spec["layer"]
    assert point["encoding"]["x"]["scale"]["domain"] == [-1.0, 6.0] == list(place.get_xlim())
    values = spec["data"]["values"]
    drawn = [tuple(line[:, 0]) for c in place.collections[:2] for line in c.get_segments()]
    assert drawn == [
        (row[rule["encoding"]["x"]["field"]], row[rule["encoding"]["x2"]["field"]]) for row in values
    ]
    points = [tuple(c.get_offsets()[0]) for c in place.collections[2:]]
    assert points == [(row[point["encoding"]["x"]["field"]], i) for i, row in enumerate(values)]


@pytest.mark.slow
def test_the_command_draws_one_run_and_several(tmp_path, capsys):
    results, out = tmp_path / "results", tmp_path / "out"
    first = run(results)
    run(results, "dgp2", details={"pit_histogram": [0.1] * 10})
    name = f"run-{first.record['key'][:8]}"
    words = ["--results", str(results), "-o", str(out)]
    assert main(["plot", first.record["key"][:8], *words]) == 0
    assert f"{name}: " in capsys.readouterr().out
    assert (out / f"figure-{name}.png").read_bytes()[:4] == b"\x89PNG"
    lines = (out / f"figure-{name}.csv").read_text().splitlines()
    assert lines[0].startswith("row,output,y,mean") and len(lines) == 31
    assert main(["plot", "dataset=energy", "--kind", "curves,calibration", *words]) == 0
    printed = capsys.readouterr().out
    assert "runs-curves: " in printed and "runs-calibration: " in printed and "run-" not in printed
    assert main(["plot", "dataset=energy", "--kind", "reliability", *words]) == 2
    assert "nothing could be drawn" in capsys.readouterr().err
    assert main(["plot", "dataset=energy", "--kind", "curvs", *words]) == 2
    assert "no kind 'curvs'; did you mean 'curves'?" in capsys.readouterr().err
    assert main(["plot", "dataset=energy", "--results", str(results), "-o", str(first.path)]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_a_run_without_files_says_why(tmp_path):
    made = plain_unit(["model=linear"], "energy", 0, {"test_loglik": -1.0}).record
    write(tmp_path, made)
    with pytest.raises(Nothing, match="linear on energy, split 0: .* has no predictions.parquet"):
        run_picture(choose(["model=linear"], tmp_path)[0])


def test_what_does_not_fit_a_picture_is_said():
    found = [
        plain_unit(
            ["model=sgp", f"model.num_inducing={m}"],
            "energy",
            0,
            {"test_loglik": -1.0},
            training={"seconds": 1.0},
        )
        for m in range(10, 20)
    ]
    pictures, left = overview_pictures(found, "own", ["seconds"])
    assert [p.name for p in pictures] == ["own-seconds"] and pictures[0].data.model.nunique() == 8
    assert left == ["left out: 2 of 10 methods (protocol clean is drawn)"]


@pytest.mark.parametrize("low, high", [(0.3, 0.9), (1, 9), (0.02, 3000), (5, 6), (1e-3, 1e9), (850, 1900)])
def test_ticks_of_seconds_are_few_and_round(low, high):
    ticks = log_ticks(low, high)
    assert 2 <= len(ticks) <= MOST_TICKS and all(low <= t <= high for t in ticks)
    assert all(b / a > (high / low) ** 0.15 for a, b in pairwise(ticks))
    assert ticks == sorted(ticks) and all(float(f"{t:.1e}") == t for t in ticks)


def test_kinds_of_a_run_do_not_overwrite_each_other_and_come_with_their_numbers(tmp_path, capsys):
    unit = run(tmp_path / "results", details={"reliability": BINS})
    for kind in ("curves", "predictions", "calibration", "reliability", "curves,calibration"):
        assert main(["plot", str(unit.folder), "--kind", kind, "-o", str(tmp_path)]) == 0
    assert main(["plot", str(unit.folder), "-o", str(tmp_path)]) == 0
    capsys.readouterr()
    stem, numbers = f"figure-run-{unit.record['key'][:8]}", {}
    for path in tmp_path.glob("*.csv"):
        numbers[path.stem.removeprefix(stem)] = pd.read_csv(path)
    kinds = ("-curves", "-predictions", "-calibration", "-reliability", "-curves-calibration")
    assert set(numbers) == {"", *kinds}
    assert np.array_equal(numbers["-curves"][["step", "seconds", "bound"]], TRACE)
    assert numbers["-reliability"].to_dict("list") == BINS
    assert {len(numbers[kind]) for kind in ("", "-predictions", "-calibration")} == {30}


def test_a_legend_fits_a_narrow_picture():
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 8}):
        figure = Figure(figsize=(3.8, 3.3), layout="constrained")
        canvas = FigureCanvasAgg(figure)
        (line,) = figure.subplots().plot([0, 1])
        names = ["dgp3 experiment=ustyuzhaninov_identity_locations budget.steps=60", "sgp budget.steps=500"]
        legend_below(figure, [line, line], names)
        canvas.draw()
        box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y0 >= 0
    assert [text.get_text().replace("\n", " ") for text in figure.legends[0].get_texts()] == names


def test_panels_fill_rows_evenly():
    assert [columns_for(n, 4) for n in (1, 4, 5, 6, 8, 9)] == [1, 4, 3, 3, 4, 3]


def test_samples_of_the_layers_have_the_moments_of_the_layers(tmp_path):
    """Samples of the last layer have the mean and variance that the model predicts for f, those of the first
    layer the moments of its conditional."""
    from dgpbench.api.fitted import layers_of
    from dgpbench.config import compose
    from dgpbench.experiment import run_unit
    from dgpbench.models.base import create
    from dgpbench.models.inside import layer_samples
    from dgpbench.report.layers_plot import has_layers, layer_picture
    from dgpbench.store import read

    paths = [f"paths.results={tmp_path / 'results'}", f"paths.datasets={tmp_path / 'datasets'}"]
    words = ["dataset=bimodal", "dataset.n=120", "model=dgp2", "model.num_inducing=8", "budget.steps=40"]
    cfg = compose([*words, *paths, "protocol.draws=20", "engine.xla=false", "precision=float64"])
    unit, _ = run_unit(cfg)
    assert has_layers(unit.record)
    model = create(cfg)
    model.load_parameters(read.parameters(unit))
    X = np.linspace(-1, 1, 5)[:, None]
    first, last = layer_samples(model, X, 20_000, 0)
    assert first.shape == last.shape == (20_000, 5, 1)
    layer, batch = model.model.layers[0], model.posterior_parts(1, 0)[0]["layer0"]
    mean, var = (a.numpy()[0] for a in layer.conditional(batch, X.T))
    error = 5 * np.sqrt(var / 20_000).max()
    np.testing.assert_allclose(first.mean(0)[:, 0], mean, atol=error)
    np.testing.assert_allclose(first.var(0)[:, 0], var, rtol=0.06)
    predicted = model.predict(X, 4000, 1)
    noise = float(model.values["likelihood/variance"])
    total = predicted.mixture_sd()[:, 0] ** 2
    error = 0.05 * np.sqrt(total.max())
    np.testing.assert_allclose(last.mean(0)[:, 0], predicted.mixture_mean()[:, 0], atol=error)
    np.testing.assert_allclose(last.var(0)[:, 0] + noise, total, rtol=0.1)
    picture = layer_picture(unit, layers_of)
    assert picture.data.layer.nunique() == 2 and picture.image()[:4] == b"\x89PNG"


def test_a_steep_start_does_not_hide_what_follows():
    steps = np.arange(0.0, 101.0, 10.0)
    values = -1e4 * np.exp(-steps / 5) - 100.0 / (1 + steps)
    assert floor_of([(steps, values)]) == pytest.approx(values[2])  # at 20 of 100 steps
    assert np.quantile(values, 0.15) < values[2]
    low = (steps, values - 50.0)
    assert floor_of([(steps, values), low]) == pytest.approx(values[2] - 50.0)  # no line is lost
    broken = (steps, np.where(steps < 30, np.nan, values))
    assert floor_of([broken]) == pytest.approx(np.quantile(values[3:], 0.15))
