"""What every kernel, likelihood, metric and figure must do, checked on small generated numbers.

`check_entry` yields one finding for each check. The tests run it on everything that is built in, and
`dgpbench check-plugin` on what users add.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench.config import compose, config_key, plugins, run_key
from dgpbench.config.schema import TASKS
from dgpbench.config.tree import config_folders, options, read_option
from dgpbench.errors import ModelError, UserError, message, source_of, user_place
from dgpbench.sweep.trial import BROKEN, NOTE, OK, Finding

ROWS, INPUTS = 12, 3
FACTS = {"classes": 3, "levels": 5, "bin_size": 1.0, "variance": 0.1}  # that a likelihood gets from elsewhere
NODES = 400  # of the quadrature over f
Check = Callable[[], str]


def check_entry(entry: plugins.Entry) -> Iterator[Finding]:
    """Yield the findings of an entry; an entry that breaks a check ends with this finding."""
    checks: dict[str, Callable[[plugins.Entry, Any], Iterator[tuple[str, Check]]]] = {
        "kernel": _kernel,
        "likelihood": _likelihood,
        "metric": _metric,
        "run_figure": _run_figure,
        "comparison_figure": _comparison_figure,
    }
    step = "import"
    try:
        found = plugins.load(entry)
        yield Finding(OK, step, entry.target)
        for step, check in checks[entry.kind](entry, found):
            text = check()
            yield Finding(NOTE if text.startswith("note: ") else OK, step, text.removeprefix("note: "))
    except (UserError, ModelError) as error:
        yield Finding(BROKEN, step, message(error))
    except Exception as error:  # noqa: BLE001 - a user's code may raise anything
        place = user_place(error)
        where = f"{place[0]}:{place[1]}: " if place else ""
        yield Finding(BROKEN, step, f"{where}{type(error).__name__}: {message(error)}")


def _same(what: str, found: Any, expected: Any, tolerance: float) -> None:
    """Raise ModelError unless two arrays agree, relative to the largest number."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        raise ModelError(f"{what} has shape {found.shape}, expected {expected.shape}")
    if not np.isfinite(found).all():
        raise ModelError(f"{what} is not finite in {np.count_nonzero(~np.isfinite(found))} of {found.size}")
    gap = np.abs(found - expected).max() / max(1.0, np.abs(expected).max())
    if not gap <= tolerance:
        raise ModelError(f"{what} differs from the expected numbers by {gap:.2g}, relative to the largest")


# ---- kernels ----------------------------------------------------------------------------------------------


def _kernel(entry: plugins.Entry, kind: Any) -> Iterator[tuple[str, Check]]:
    from dgpbench.engine.platform import tf
    from dgpbench.gp.kernels import parse

    text, dim = f"rbf+{entry.name}" if kind.noise else entry.name, INPUTS
    try:
        kernel = parse(text, dim)
    except UserError:  # a kernel of one input
        dim = 1
        kernel = parse(text, dim)
    random = np.random.default_rng(0)
    Z = random.standard_normal((ROWS, dim))
    start = kernel.initial(1.0, 1.0, 0.1)
    values = {name: np.abs(v) * 1.3 + 0.1 for name, v in start.items()}
    p = {name: tf.constant(v, tf.float64) for name, v in values.items()}
    prepared = kernel.prepare(p, tf.constant(Z))
    noise = 0.0
    if kind.noise:
        noise = values[f"{entry.name}/variance"] * np.eye(ROWS)

    def parameters() -> str:
        if missing := [name for name in kernel.constraints() if name not in start]:
            raise ModelError(f"{source_of(kind)}constraints() names {missing[0]}, which initial() lacks")
        bare = parse(text, dim, ard=False).initial(1.0, 1.0, 0.1)
        if set(bare) != set(start):
            raise ModelError(f"{source_of(kind)}initial() has other parameters without ard")
        return ", ".join(f"{name} {v.shape}" for name, v in start.items())

    def covariance() -> str:
        gram = kernel.gram(prepared).numpy()
        _same("gram", gram, gram.T, 1e-10)
        if (least := np.linalg.eigvalsh(gram).min()) < -1e-8 * np.trace(gram):
            raise ModelError(f"{source_of(kind)}gram is not positive semi-definite: eigenvalue {least:.2g}")
        return f"{ROWS} x {ROWS}, symmetric and positive semi-definite"

    def agreement() -> str:
        gram, H = kernel.gram(prepared).numpy(), tf.constant(Z.T)
        _same("cross", kernel.cross(prepared, H), gram - noise, 1e-6)
        _same("cross_rows", kernel.cross_rows(prepared, tf.constant(Z)), (gram - noise).T, 1e-6)
        diagonal = np.broadcast_to(kernel.diagonal(prepared, H).numpy(), (1, ROWS))
        _same("diagonal", diagonal, np.diag(gram)[None], 1e-6)
        left = tf.constant(np.repeat(Z.T[:, :, None], ROWS, 2))  # D, T, C
        right = tf.constant(np.repeat(Z.T[:, None], ROWS, 1))
        same = tf.zeros((ROWS, 1), tf.bool)
        _same("between", kernel.between(prepared, left, right, same), gram - noise, 1e-6)
        return "cross, cross_rows, diagonal and between agree with gram"

    def gradient() -> str:
        with tf.GradientTape() as tape:
            tape.watch(p)
            total = tf.reduce_sum(kernel.cross(kernel.prepare(p, tf.constant(Z)), tf.constant(Z.T + 0.3)))
        for name, slope in tape.gradient(total, p).items():
            if slope is None:
                continue  # a parameter that this part does not use
            step = 1e-5
            ends = []
            for sign in (1.0, -1.0):
                moved = {**p, name: p[name] + sign * step}
                made = kernel.prepare(moved, tf.constant(Z))
                ends.append(float(tf.reduce_sum(kernel.cross(made, tf.constant(Z.T + 0.3)))))
            _same(f"gradient in {name}", tf.reduce_sum(slope), (ends[0] - ends[1]) / (2 * step), 1e-4)
        return "equal to finite differences"

    yield "parameters", parameters
    yield "gram", covariance
    yield "agreement", agreement
    yield "gradient", gradient


# ---- likelihoods ------------------------------------------------------------------------------------------


def _likelihood(entry: plugins.Entry, kind: Any) -> Iterator[tuple[str, Check]]:
    from dgpbench.engine.platform import tf
    from dgpbench.gp.likelihoods.base import Likelihood

    settings: dict[str, Any] = {}

    def declared() -> str:
        if wrong := [task for task in kind.tasks if task not in TASKS]:
            raise ModelError(f"{source_of(kind)}unknown task {wrong[0]!r}; tasks are {', '.join(TASKS)}")
        own = {field.name for field in fields(kind)} - {*FACTS}
        if missing := sorted(own - {*kind.fields}):
            raise ModelError(f"{source_of(kind)}{missing[0]} is not in `fields`, which states its range")
        return f"tasks {', '.join(kind.tasks)}; link {kind.link}; fields {', '.join(kind.fields) or 'none'}"

    def option() -> str:
        own = [entry.file.parent] if entry.file and not _ours(entry) else []
        path = options("likelihood", config_folders(own)).get(entry.name)
        if path is None:
            raise ModelError(
                f"no file likelihood/{entry.name}.yaml with the name and the values of its fields"
            )
        settings.update(compose([f"likelihood={entry.name}"], own)["likelihood"])
        return f"{path.name} has {', '.join(read_option(entry.name, path))}"

    yield "declared", declared
    yield "option", option
    given = {f.name: settings.get(f.name, FACTS.get(f.name)) for f in fields(kind)}
    given["bin_size"] = given.get("bin_size") or 1.0
    one = kind(**{name: value for name, value in given.items() if name in {f.name for f in fields(kind)}})
    start = one.initial()
    p = {name: tf.constant(value, tf.float64) for name, value in start.items()}
    gps, random = one.gps(1), np.random.default_rng(0)
    F = random.standard_normal((gps, ROWS))
    mean, var = tf.constant(F), tf.constant(random.uniform(0.2, 1.0, (gps, ROWS)))
    Y = _targets(one, start, F, random)
    noise = tf.constant(random.standard_normal((one.noise_rows(gps), ROWS))) if one.noise_rows(gps) else None
    pointwise = kind.log_prob is not Likelihood.log_prob

    def parameters() -> str:
        if missing := [name for name in (*one.positive, *one.fixed) if name not in start]:
            raise ModelError(f"{source_of(kind)}initial() has no {missing[0]}, which is positive or fixed")
        return ", ".join(start) or "none"

    def normalised() -> str:
        if not pointwise:
            return "note: without log_prob, normalisation is not checked"
        f = tf.constant(F[:, :1])
        if one.discrete:
            points = np.arange(0.0, (one.levels if hasattr(one, "levels") else 200.0))
            points = points[:2] if kind.tasks == ("binary",) else points
            total = sum(float(tf.exp(one.log_prob(p, f, tf.constant([[y]], tf.float64)))) for y in points)
        else:
            draws = one.draw(start, np.full(4000, F[0, 0]), np.random.default_rng(1))
            low, high = np.quantile(draws, (0.001, 0.999))
            edges = np.linspace(low, high, 4001)
            middle = 0.5 * (edges[1:] + edges[:-1])
            density = np.exp(
                one.log_prob(p, tf.constant(np.full((1, 4000), F[0, 0])), tf.constant(middle[None]))
            )
            total = float(density.sum() * (edges[1] - edges[0])) + 0.002
        _same("the sum of p(y | f) over y", total, 1.0, 0.02)
        return "p(y | f) sums to one where draws lie"

    def expectations() -> str:
        found = one.variational_expectations(p, mean, var, tf.constant(Y), noise)
        if not pointwise:
            _same("variational_expectations", found, np.asarray(found), 1e-12)
            return f"finite for {ROWS} rows"
        x, weight = np.polynomial.hermite_e.hermegauss(100)
        weight = weight / weight.sum()
        each = [one.log_prob(p, mean + tf.sqrt(var) * node, tf.constant(Y)).numpy() for node in x]
        _same("variational_expectations", found, np.tensordot(weight, each, 1).sum(0), 2e-3)
        return "equal to quadrature of log_prob"

    def density() -> str:
        if not pointwise:
            return "note: without log_prob, densities are not checked"
        grid = np.linspace(-10.0, 10.0, NODES * 10 + 1)
        weight = np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi) * (grid[1] - grid[0])
        each = [np.exp(one.log_prob(p, mean + tf.sqrt(var) * node, tf.constant(Y)).numpy()) for node in grid]
        expected = np.log(np.tensordot(weight, each, 1)).sum(0)
        _same("log_density", one.log_density(p, mean, var, tf.constant(Y)), expected, 1e-3)
        return "equal to the integral of p(y | f) over f"

    def predicts() -> str:
        if hasattr(one, "probs"):
            total = tf.reduce_sum(one.probs(p, mean, var, noise), 0)
            _same("the sum of class probabilities", total, np.ones(ROWS), 1e-6)
            return "class probabilities sum to one"
        return f"draws of shape {_targets(one, start, F, random).shape}"

    yield "parameters", parameters
    yield "normalised", normalised
    yield "expectation", expectations
    yield "density", density
    yield "predicts", predicts


def _ours(entry: plugins.Entry) -> bool:
    return entry.name in plugins.built_in(entry.kind)


def _targets(one: Any, start: Mapping[str, np.ndarray], F: np.ndarray, random: np.random.Generator) -> Any:
    """Targets (1, rows) that the likelihood draws, or labels where it has class probabilities."""
    if hasattr(one, "probs"):
        return (np.arange(F.shape[1])[None] % (2 if one.gps(1) == 1 else one.gps(1))).astype(float)
    if type(one).__name__ == "Gaussian":
        return F[:1] + np.sqrt(start["variance"]) * random.standard_normal((1, F.shape[1]))
    drawn = np.asarray(one.draw(start, F, random))
    _same("draw", drawn, drawn, 1.0)
    if drawn.shape != F.shape:
        raise ModelError(f"{source_of(type(one))}draw returned shape {drawn.shape}, expected {F.shape}")
    return drawn


# ---- metrics ----------------------------------------------------------------------------------------------


def _metric(entry: plugins.Entry, function: Any) -> Iterator[tuple[str, Check]]:
    from dgpbench.evaluate.metric_table import METRICS

    own = METRICS[entry.name]

    def declared() -> str:
        if not _ours(entry) and not own.name.startswith("test_"):
            raise ModelError(f"{source_of(function)}the name must begin with test_, e.g. test_{own.name}")
        way = f"{own.better} is better" if own.better else "neither higher nor lower is better"
        return f"{own.title}; {way}; tasks {', '.join(own.tasks)}; needs {', '.join(own.needs)}"

    def values() -> str:
        from dgpbench.store.verify import recompute

        told = []
        for task in own.tasks:
            if task == "images":
                continue
            metrics, predictions = _scored(task, own.name)
            value = metrics.get(own.name)
            if value is None:
                told.append(f"{task}: none")
                continue
            if not (own.span[0] <= value <= own.span[1]) or (own.positive and value <= 0):
                raise ModelError(f"{source_of(function)}{own.name} is {value:g}, outside {own.span}")
            again = recompute(predictions).get(own.name)
            if again is not None:
                _same(f"{own.name} from stored predictions", again, value, 1e-6)
            told.append(
                f"{task}: {value:.4g}{', the same from stored predictions' if again is not None else ''}"
            )
        return "; ".join(told) or "images only: not tried"

    yield "declared", declared
    yield "value", values


def _scored(task: str, name: str = "") -> tuple[dict[str, float | None], dict[str, np.ndarray]]:
    """Metrics and predictions of generated data; ModelError if the metric `name` fails."""
    from dgpbench.evaluate.evaluation import evaluate
    from dgpbench.evaluate.predictive import Predictive
    from dgpbench.sweep.trial import generated_split

    split = generated_split(task, 40)

    def predict(X: np.ndarray, samples: int, seed: int) -> Predictive:
        random = np.random.default_rng(0)
        if split.n_classes:
            return Predictive(probs=random.dirichlet(np.ones(split.n_classes), len(X)))
        mean = random.uniform(0.5, 1.5, (3, len(X), 1))
        return Predictive(mean=mean, var=0.3 + 0.1 * mean)

    protocol = {"test_samples": 3, "draws": 60, "max_test": None, "kde_rows": None}
    folders = [str(folder) for folder in plugins.used()]
    found = evaluate(predict, split, protocol, 0, config_dirs=folders)
    if failed := [text for text in found.notes if name and f"metric {name} " in text]:
        raise ModelError(failed[0].partition("; it is left empty")[0])
    return found.metrics, found.predictions


# ---- figures ----------------------------------------------------------------------------------------------


def _unit(model: str, split: int, task: str = "regression") -> Any:
    """A finished run, made up."""
    from dgpbench.store.record import build_record
    from dgpbench.store.scan import Unit

    cfg = compose([f"model={model}", "dataset=boston", f"split={split}"]) | {"split": split}
    data = hashlib.sha256(b"boston").hexdigest()
    metrics, _ = _scored(task)
    shift = 0.1 * len(model) + 0.01 * split
    numbers = {name: value + shift for name, value in metrics.items() if value is not None}
    record = build_record(
        cfg,
        key=run_key(cfg, data),
        config_key=config_key(cfg, data),
        status="done",
        data_hash=data,
        metrics=numbers,
        details={"pit_histogram": [0.1] * 10},
        training={"seconds": 1.0 + shift, "steps": 20, "trace": _trace()},
        sizes={"n_train": 40, "n_test": 20, "inputs": INPUTS, "outputs": 1},
        wall_seconds=2.0,
    )
    return Unit(record, Path("results") / model / str(split) / "record.json")


def _trace() -> list[list[float]]:
    return [[step, step / 10.0, -100.0 / step] for step in range(1, 21)]


def _drawn(picture: Any) -> str:
    size = len(picture.image("png", dpi=40))
    return (
        f"{picture.size[0]:g} x {picture.size[1]:g} inches, {len(picture.data)} lines of data, {size:,} bytes"
    )


def _run_figure(entry: plugins.Entry, draw: Any) -> Iterator[tuple[str, Check]]:
    import pandas as pd

    from dgpbench.report.charts import Panel
    from dgpbench.report.charts.picture import panels_picture
    from dgpbench.report.charts.run_charts import RunView
    from dgpbench.report.charts.vega import panel_html

    def drawn(task: str) -> str:
        panels = draw(RunView(_unit("linear", 0, task), _scored(task)[1]))
        if not isinstance(panels, list | tuple) or not all(isinstance(panel, Panel) for panel in panels):
            raise ModelError(f"{source_of(draw)}expected a list of Panel, got {type(panels).__name__}")
        if not panels:
            return f"note: nothing to draw of {task}"
        size = sum(len(panel_html(panel)) for panel in panels)
        return (
            f"{_drawn(panels_picture('check', 'Check', panels, pd.DataFrame()))}; {size:,} characters of page"
        )

    for task in ("regression", "multiclass"):
        yield task, lambda task=task: drawn(task)  # type: ignore[misc]


def _comparison_figure(entry: plugins.Entry, draw: Any) -> Iterator[tuple[str, Check]]:
    from dgpbench.evaluate.metric_table import LOGLIK, find_metric
    from dgpbench.report.charts import Nothing
    from dgpbench.report.charts.picture import Picture, PictureSpec
    from dgpbench.report.comparison.methods import as_comparison, methods

    def drawn() -> str:
        units = [_unit(model, split) for model in ("linear", "knn") for split in range(3)]
        comparison = as_comparison(methods(units), find_metric(LOGLIK))
        try:
            picture = draw(PictureSpec("check", entry.name, draw.title), comparison)
        except Nothing as nothing:
            return f"note: {nothing}"
        if not isinstance(picture, Picture):
            raise ModelError(f"{source_of(draw)}returned a {type(picture).__name__}, expected a Picture")
        return _drawn(picture)

    yield "two models", drawn
