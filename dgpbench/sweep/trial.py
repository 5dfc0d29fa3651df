"""Trial of a user's model on twenty rows, before anything is trained.

The model runs in a separate process: whatever it does (prints, exits, hangs) stays there, and nothing is
written to the results folder. `findings` starts the process, `run_trial` is what happens in it.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dgpbench.errors import Diverged, ModelError, UserError, in_user_file, message, source_of, user_place
from dgpbench.store.trust import code_packages

if TYPE_CHECKING:
    from dgpbench.data.split import Split
    from dgpbench.evaluate.predictive import Predictive
    from dgpbench.models.base import Model
    from dgpbench.sweep.plan import Plan

OK, NOTE, BROKEN = "ok", "note", "BROKEN"
ROWS, MORE_ROWS = 20, 1000  # a model that fails on few rows is tried on more before it is called broken
STEPS, SAMPLES = 20, 20
START, LIMIT = 120.0, 20.0  # seconds to import and build a model, and for the rest of its trial
CLASSES = {"binary": 2, "multiclass": 3}
SAME = 1e-6  # relative difference of predictions before and after storing


class Finding(NamedTuple):
    """Result of one step of a trial; `reason` is what a record says if it differs from `text`."""

    status: str
    step: str
    text: str
    reason: str = ""


# ---- in the process that asks -------------------------------------------------------------------------


def check_models(
    plan: Plan, indices: Sequence[int], note: Callable[[str], None], build_only: bool = False
) -> None:
    """Try each user model of the planned runs once per task.

    Parameters
    ----------
    plan : Plan
    indices : sequence of int
        Runs that are about to start.
    note : callable
        Receives one line per model.
    build_only : bool, default=False
        Import and build the models without training them.

    Raises
    ------
    UserError
        If a model is broken. Nothing has been trained then.
    """
    wanted = {plan.units[index].config for index in indices}
    for number, unit in enumerate(plan.units):
        cfg = plan.config(number)
        if unit.config not in wanted or not code_packages([cfg]):
            continue
        wanted.discard(unit.config)
        if (key := _key(cfg, build_only)) in _passed:
            continue
        try:
            check_model(cfg, note, build_only)
        except ModelError as error:
            text = f"{label(cfg)} is broken, so nothing was run: {error}; --no-check runs it anyway"
            raise UserError(text) from None
        _passed.add(key)


_passed: set[tuple] = set()  # by this process


def _key(cfg: dict, build_only: bool) -> tuple:
    model, inference = cfg["model"], cfg["inference"]
    code = model["_target_"], model["name"], model.get("wrapped"), inference.get("_target_")
    own = cfg["likelihood"].get("_target_"), str(model.get("kernels"))
    return *code, *own, cfg["dataset"].get("task"), build_only


def check_model(cfg: dict, note: Callable[[str], None], build_only: bool = False) -> None:
    """Try the user's model or inference method of a config; raise ModelError if it is broken."""
    began = time.monotonic()
    for finding in findings(cfg, build_only=build_only):
        if finding.status == BROKEN:
            raise ModelError(finding.reason or finding.text)
        if finding.status == NOTE:
            note(f"check of {label(cfg)}: {finding.text}")
    if not build_only:
        note(f"check of {label(cfg)}: passed on {ROWS} rows in {time.monotonic() - began:.1f} s")


def label(cfg: dict) -> str:
    """Return 'model=mine', or 'inference=mine' if only the inference method is the user's."""
    users = [group for group in ("model", "inference", "likelihood") if code_packages([{group: cfg[group]}])]
    group = users[0] if users else "model"
    return f"{group}={cfg[group]['name']}"


def findings(cfg: dict, *, build_only: bool = False, made_up: bool = False) -> Iterator[Finding]:
    """Yield the findings of a trial as they come.

    Parameters
    ----------
    cfg : dict
        Composed config. The trial shortens its budget and protocol.
    build_only : bool, default=False
        Stop after import and construction.
    made_up : bool, default=False
        Use generated rows for each task of the model instead of rows of the config's dataset.
    """
    from dgpbench.machine import visible_gpus
    from dgpbench.sweep.process import Child

    gpus = [] if cfg["device"] == "cpu" else visible_gpus()
    with tempfile.TemporaryDirectory(prefix="dgpbench-check-") as folder:
        child = Child(2, gpus[0] if gpus else None, 1.0, os.getcwd())
        try:
            child.order(
                trial=cfg, folder=folder, path=sys.path, build_only=build_only, made_up=made_up, force=False
            )
            yield from _heard(child, Path(folder))
        finally:
            if child.ended() is None:
                child.signal(signal.SIGKILL)
            child.close(1.0)


def _heard(child: Any, folder: Path) -> Iterator[Finding]:
    """Yield what the process of a trial reports, and how it ended if it did not report its end."""
    step, place, limit = "import", "", START
    end = time.monotonic() + limit
    while True:
        if not select.select([child], [], [], max(0.0, end - time.monotonic()))[0]:
            text = f"{place}slow: {step} was stopped after {limit:.0f} s; the rest is unchecked"
            yield Finding(NOTE, step, text)
            return
        code = child.ended()
        for answer in child.answers():
            if "begin" in answer:
                step, place = answer["begin"], answer["place"]
                if step == "fit" and limit == START:
                    limit = LIMIT
                    end = time.monotonic() + limit
            elif "finding" in answer:
                yield Finding(*answer["finding"])
            elif "finished" in answer:
                return
        if code is not None:
            yield _death(code, step, place, folder)
            return


def _death(code: int, step: str, place: str, folder: Path) -> Finding:
    """Return how the process of a trial died, with the last line that it printed."""
    from dgpbench.sweep.child import LOG
    from dgpbench.sweep.process import death

    status, reason = death(code, 0)
    if code < 0:
        text = f"{place}{step}: {reason.removesuffix('; its log says more')}"
        return Finding(NOTE if status == "interrupted" else BROKEN, step, text)
    try:
        printed = (folder / LOG).read_text(errors="replace").splitlines()[1:]
    except OSError:
        printed = []
    last = f"; it printed last: {printed[-1][:200]}" if printed else ""
    why = "it, or a library that it uses, may call os._exit"
    return Finding(BROKEN, step, f"{place}{step} ended the process with exit code {code}: {why}{last}")


# ---- in the process that tries ------------------------------------------------------------------------


def run_trial(order: dict, send: Callable[..., None]) -> dict:
    """Try the model of an order and send its findings; return the last answer."""
    sys.path += [place for place in order["path"] if place not in sys.path]
    trial = _Trial(order["trial"], Path(order["folder"]), send)
    try:
        model = trial.build()
        if not order["build_only"]:
            for split, certain in trial.splits(model, order["made_up"]):
                trial.on(split, certain)
            trial.conclude()
    except _BrokenError:
        pass
    except Exception as error:  # noqa: BLE001 - such as data that cannot be read
        send(finding=_explained(error, trial.step))
    return {"finished": True}


class _BrokenError(Exception):
    """The trial is over; its finding has been sent."""


class _Trial:
    """A config made small, and the steps of its trial."""

    def __init__(self, cfg: dict, folder: Path, send: Callable[..., None]) -> None:
        self.cfg, self.send, self.step = _small(cfg, folder), send, "import"
        self.passed: list[str] = []  # tasks
        self.doubtful: list[tuple[str, Finding]] = []  # tasks that the model does not say it is for

    def begin(self, step: str, method: object = None) -> None:
        self.step = step
        self.send(begin=step, place=source_of(method))

    def tell(self, text: str) -> None:
        self.send(finding=(OK, self.step, text))

    def build(self) -> Model:
        from dgpbench.config.classes import load_class, method_class
        from dgpbench.models.base import create

        self.begin("import")
        target = self.cfg["model"]["_target_"]
        try:
            load_class("model._target_", target)
            method_class(self.cfg["inference"])
            self.tell(target)
            self.begin("build")
            model = create(self.cfg)
        except (Exception, SystemExit) as error:
            self.send(finding=_explained(error, self.step))
            raise _BrokenError from None
        self.tell(f"{type(model).__name__} has all methods")
        return model

    def splits(self, model: Model, made_up: bool) -> Iterator[tuple[Callable[[int], Split], bool]]:
        """Yield functions that give a split with at most n training rows, and whether its task is one that
        the model must be able to do."""
        if not made_up:
            from dgpbench.config.derived import is_trial
            from dgpbench.data import load_split

            self.begin("data")
            whole = load_split(self.cfg)
            whole = whole.on_validation() if is_trial(self.cfg) else whole
            yield lambda rows: _few_rows(whole, rows), True
            return
        tasks: Sequence[str] = getattr(model, "tasks", ())
        if not code_packages([{"model": self.cfg["model"]}]):
            tasks = ("regression",)  # the inference method is what is tried
        for task in tasks or ("regression", *CLASSES):
            yield partial(generated_split, task), bool(tasks)

    def on(self, split_of: Callable[[int], Split], certain: bool) -> None:
        """Try the model on one task, with few rows and, if an error may come from that, with more."""
        told: list[Finding] = []
        split = split_of(ROWS)
        broken, few = self._attempt(split, told)
        if broken and few and (larger := split_of(MORE_ROWS)).n_train > split.n_train:
            more: list[Finding] = []
            if self._attempt(larger, more)[0] is None:
                text = f"it needs more than {ROWS} rows ({broken.text}); it works on {larger.n_train}"
                told, broken = [*more, Finding(NOTE, broken.step, text)], None
        if broken and not certain:
            self.doubtful.append((split.task, broken))
            return
        for finding in told:
            self.send(finding=finding)
        if broken:
            self.send(finding=broken)
            raise _BrokenError
        self.passed.append(split.task)

    def conclude(self) -> None:
        """Report tasks on which a model failed that does not say which tasks it is for."""
        if not self.doubtful:
            return
        _, found = self.doubtful[0]
        if self.passed:
            only = ", ".join(f'"{name}"' for name in self.passed) + "," * (len(self.passed) == 1)
            tasks = " and ".join(task for task, _ in self.doubtful)
            text = (
                f"only for {' and '.join(self.passed)}: declare tasks = ({only}) in the class; on {tasks}: "
            )
            found = Finding(NOTE, "tasks", text + found.text)
        self.send(finding=found)

    def _attempt(self, split: Split, told: list[Finding]) -> tuple[Finding | None, bool]:
        """Run all steps on a split.

        Returns
        -------
        Finding or None
            What is broken.
        bool
            Whether the number of rows may be the reason.
        """
        cfg = self.cfg | {"dataset": self.cfg["dataset"] | {"name": split.dataset, "task": split.task}}
        try:
            for text in self._steps(split, cfg, lambda text: told.append(Finding(NOTE, self.step, text))):
                told.append(Finding(OK, self.step, text))
        except (UserError, Diverged, MemoryError) as error:  # they say nothing against the code
            text = f"not tried on {split.task} beyond this: {message(error)}"
            told.append(Finding(NOTE, self.step, text))
        except (Exception, SystemExit) as error:
            return _explained(error, self.step), not isinstance(error, ModelError | SystemExit)
        return None, False

    def _steps(self, split: Split, cfg: dict, note: Callable[[str], None]) -> Iterator[str]:
        """Yield one text per step; `self.step` is the step that runs."""
        from dgpbench.evaluate.evaluation import check_density, check_predictive
        from dgpbench.experiment import evaluate_model, evaluation_protocol
        from dgpbench.models.base import check_task, create

        model, seed = create(cfg), cfg["seed"]
        check_task(model, cfg["model"]["name"], split)
        self.begin("fit", model.fit)
        began = time.perf_counter()
        model.fit(split, _context(cfg, split, note))
        seconds = time.perf_counter() - began
        yield f"{split.n_train} rows, {split.dim} inputs, {split.task}: {seconds:.2f} s"

        self.begin("predict", model.predict)
        X, Y, S = split.X_test, split.Y_test, evaluation_protocol(model, cfg)["test_samples"]
        predictive = model.predict(X.copy(), S, seed)
        check_predictive(model.predict, predictive, split, Y)
        check_predictive(model.predict, model.predict(X[:1].copy(), S, seed), split, Y[:1])
        if problem := predictive.problem():
            raise ModelError(f"{source_of(model.predict)}{problem}")
        repeats = _difference(predictive, model.predict(X.copy(), S, seed)) <= SAME
        if not repeats:
            note("two calls of predict with one seed differ; take all randomness from `seed`")
        yield f"{predictive.kind} of shape {_values(predictive)[0].shape}"

        if density := getattr(model, "log_density", None):
            self.begin("log_density", density)
            terms = check_density(density, density(X.copy(), Y.copy(), S, seed), len(X))
            yield "none for these rows" if terms is None else f"terms of shape {terms.shape}"

        self.begin("metrics")
        evaluate_model(model, split, cfg, seed)
        yield "all finite"

        self.begin("store", model.load_parameters)
        values, stored_as = _stored(model)
        if stored_as == "0 arrays":
            note("parameters() is empty, so finished runs cannot predict or be rescored")
            return
        other = create(cfg)
        other.load_parameters(values)
        gap = _difference(predictive, other.predict(X.copy(), S, seed))
        if repeats and not gap <= SAME:
            where = source_of(model.load_parameters)
            raise ModelError(
                f"{where}after load_parameters(parameters()) predict gives other numbers than before"
                f" (relative difference {gap:.2g}); expected the same"
            )
        yield f"{stored_as}, and the same predictions after loading"


def _explained(error: BaseException, step: str) -> Finding:
    """Return the error of a user's model in one line, which begins with its file and line if possible."""
    if isinstance(error, ModelError | UserError):
        return Finding(BROKEN, step, message(error))
    place = user_place(error)
    what = f"{type(error).__name__}: {message(error)}"
    text = f"{step} raised {what}"
    if isinstance(error, SystemExit):
        text = what = f"{step} called sys.exit({error.code!r})"
    where = f"{place[0]}:{place[1]}: " if place else ""
    return Finding(BROKEN, step, where + text, what + in_user_file(error))


def _small(cfg: dict, folder: Path) -> dict:
    """Return the config with a short budget, few samples and a results folder that is thrown away."""
    budget, protocol, model = cfg["budget"], cfg["protocol"], dict(cfg["model"])
    budget = budget | {"steps": min(budget["steps"] or STEPS, STEPS), "growth": "none", "stop": "none"}
    budget |= {"max_steps": None, "seconds": None if budget["seconds"] is None else 1.0}
    counts = {name: min(protocol[name], SAMPLES) for name in ("test_samples", "latent_samples", "draws")}
    if "layers" in model and type(model.get("num_inducing")) is int:  # a GP of ours
        model["num_inducing"] = min(model["num_inducing"], 5)
    return cfg | {
        "budget": budget,
        "protocol": protocol | counts | {"kde_rows": 0},
        "model": model,
        "engine": cfg["engine"] | {"xla": False, "trace_test": False, "tensorboard": False},
        "paths": cfg["paths"] | {"results": str(folder / "results")},
    }


def _context(cfg: dict, split: Split, note: Callable[[str], None]) -> Any:
    from dgpbench.engine.context import Silent
    from dgpbench.experiment import context

    return context(cfg, "0" * 64, split.n_train, lambda text: None, Silent())


def _few_rows(split: Split, rows: int) -> Split:
    """Return a split with at most `rows` training rows, of several classes, and ROWS test rows."""
    train = split.rows_train[np.unique(np.linspace(0, split.n_train - 1, rows).astype(int))]
    if split.n_classes:
        _, first = np.unique(np.asarray(split.Y[split.rows_train[:100_000], 0]), return_index=True)
        train = np.union1d(split.rows_train[first[: rows // 2]], train[rows // 2 :])
    return replace(split, rows_train=train, rows_test=split.rows_test[:ROWS], rows_valid=None)


def generated_split(task: str, rows: int) -> Split:
    """Return generated data of a task with three inputs."""
    from dgpbench.data.split import Split

    random = np.random.default_rng(0)
    X = random.standard_normal((rows + ROWS, 3))
    f = np.sin(2 * X[:, :1]) + X[:, 1:2] + 0.1 * random.standard_normal((len(X), 1))
    Y, count = f / f.std(), CLASSES.get(task, 0)
    if count:
        Y = np.floor(count * f.argsort(0).argsort(0) / len(f))
    elif task == "counts":
        Y = random.poisson(np.exp(f / 2)).astype(float)
    classes = tuple(str(c) for c in range(count))
    return Split.from_arrays(X[:rows], Y[:rows], X[rows:], Y[rows:], "generated", task, count, classes)


def _values(predictive: Predictive) -> list[np.ndarray]:
    return [a for name in predictive.FIELDS if (a := getattr(predictive, name)) is not None]


def _difference(a: Predictive, b: Predictive) -> float:
    """Return the largest difference between two predictions relative to the largest number in them."""
    pairs = list(zip(_values(a), _values(b), strict=False))
    if a.kind != b.kind or any(x.shape != y.shape for x, y in pairs):
        return np.inf
    finite = lambda x: np.nan_to_num(x, neginf=-1e300)  # noqa: E731 - log weights of 0
    return max(
        float(np.abs(finite(x) - finite(y)).max() / max(np.abs(finite(x)).max(), 1e-300)) for x, y in pairs
    )


def _stored(model: Model) -> tuple[Any, str]:
    """Return the model's parameters as they come back from a file, and what they are."""
    from dgpbench.store.read import ModelFile, split_parameters, unpack, unpack_arrays
    from dgpbench.store.write import write_npz

    place, values = source_of(model.parameters), model.parameters()
    if not isinstance(values, (dict, ModelFile, bytes)):
        kind = type(values).__name__
        raise ModelError(f"{place}parameters returned a {kind}, expected a mapping of names to arrays")
    buffer = io.BytesIO()
    try:
        arrays, file = split_parameters(values)
        if file:
            return unpack(file), f"a {file.format} file"
        write_npz(buffer, arrays)
    except ValueError as error:
        raise ModelError(f"{place}{message(error)}") from None
    return unpack_arrays(buffer.getvalue()), f"{len(arrays)} arrays"
