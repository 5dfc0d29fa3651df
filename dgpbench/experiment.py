"""One unit: config in, record out. The only module where all parts meet.

config -> split -> model -> train -> predict -> metrics -> record; each arrow is one call in `run_unit`.
"""

from __future__ import annotations

import os
import re
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path

from dgpbench.config import config_key, deviations, plugins, run_key
from dgpbench.config.classes import create_method
from dgpbench.config.derived import budget_of, budget_text, every, is_trial, num_splits, planned_steps
from dgpbench.config.refusals import SAMPLED, burn_in_and_thinning
from dgpbench.data import Split, load_split
from dgpbench.data.readers.user_file import input_names
from dgpbench.data.scaling import Transform
from dgpbench.engine.context import RunContext, Silent, StopRule
from dgpbench.errors import (
    DISK_FAULTS,
    Diverged,
    Interrupted,
    ModelError,
    UserError,
    disk_fault,
    in_user_file,
    message,
)
from dgpbench.evaluate.evaluation import Evaluation, Progress, evaluate
from dgpbench.evaluate.metrics import LIKELIHOOD_VARIANCE
from dgpbench.machine import describe_device, forget_peak_memory, git_commit, peak_memory, versions
from dgpbench.models.base import check_task, create, refuse_split
from dgpbench.store.layout import labels_of, reference_folders, unit_folder
from dgpbench.store.read import check_allowed, load_parameters, split_parameters
from dgpbench.store.record import MODEL_FILES, build_record
from dgpbench.store.scan import Unit, find_done
from dgpbench.store.timing import MOST_OWN, Costs, Sizes, own_records
from dgpbench.store.write import PARAMS, ensure_writable, plain_arrays, write_unit
from dgpbench.trackers import Tracking, check_tracker

MAX_NOTE, MAX_NOTES = 1000, 100  # characters and lines that stay of the notes of a record that is too large
OUT_OF_MEMORY = ("ResourceExhaustedError", "MemoryError")


def run_unit(
    cfg: dict,
    *,
    force: bool = False,
    reporter=None,
    stopped: Callable[[], Interrupted | None] = lambda: None,
    trial: Callable[[dict], None] = lambda cfg: None,
) -> tuple[Unit, bool]:
    """Train, evaluate and record what `cfg` describes; return the unit and whether it was done before.

    A failure of any kind is recorded with its reason. UserError and Interrupted are raised to the caller.
    `stopped` returns what a signal's handler has raised, which native code under import turns into other
    errors. `trial` is called before training; what it raises is recorded like an error of `fit`.
    """
    plugins.use(cfg["paths"].get("config_dirs", ()))  # in a worker too
    reporter, notes = reporter or Silent(), []
    note = _collector(notes, reporter)
    ensure_writable(cfg["paths"]["results"])
    check_tracker(cfg)
    split = load_split(cfg, note)
    if is_trial(cfg):
        split = split.on_validation()
    timed = cfg["budget"]["seconds"] is not None  # the key then needs the model's device and threads
    if not timed and (done := _done(cfg, split)) and not force:
        return done, True
    refuse_split(cfg, split)
    model = create(cfg)
    check_task(model, cfg["model"]["name"], split)
    cfg = _with_machine(cfg, model)
    key = run_key(cfg, split.data_hash)
    if timed and (done := _done(cfg, split)) and not force:
        return done, True
    run = context(cfg, key, split.n_train, note, reporter)
    if force:
        run.forget()
    facts = _facts(cfg, split, model, key)
    lines = plan_lines(cfg, split, model, run.seed)
    if reporter.expects:
        lines.append(("expected", expected_time(cfg, split, facts["config_key"])))
    reporter.plan(lines)
    with Tracking(cfg, note) as tracking:
        tracking.start(key, run.folder)
        run.log = tracking.log
        unit = _trained(cfg, split, model, run, facts, notes, force, stopped, trial)
        tracking.finish(unit.record.status, unit.record.metrics, unit.record.files)
    return unit, False


def _trained(
    cfg: dict,
    split: Split,
    model,
    run: RunContext,
    facts: dict,
    notes: list[str],
    force: bool,
    stopped: Callable[[], Interrupted | None],
    trial: Callable[[dict], None],
) -> Unit:
    """Train and evaluate a model and store the record, of whatever kind; return its unit."""
    note, reporter = run.note, run.reporter
    forget_peak_memory()
    began = time.perf_counter()
    outcome, companions = {"status": "done"}, {}
    try:
        with _same_folder():
            trial(cfg)
            trained = model.fit(split, run)
            outcome |= _training(trained)
            reporter.stop()
            reporter.note(f"evaluating on {split.n_test:,} test rows")
            evaluation = evaluate_model(model, split, cfg, run.seed, reporter.rows)
            metrics = scores(evaluation, model, split, cfg, run.seed)
        outcome |= _scores(evaluation, split) | {"metrics": metrics}
        for text in evaluation.notes:
            note(text)
        if not is_trial(cfg):
            companions = _companions(evaluation, model, _transform(cfg, split))
            if getattr(model, "keeps_rows", False):
                size = sum(array.nbytes for array in companions["params"].values()) / 1e6
                name = PARAMS
                if file := companions["model"]:
                    name, size = MODEL_FILES[file.format], len(file.content) / 1e6
                note(f"predictions need training rows: {name} keeps them, {size:.1f} MB")
    except UserError:
        raise
    except Diverged as error:
        outcome = {"status": "diverged", "reason": str(error), "training": {"recoveries": run.recoveries}}
    except (Exception, SystemExit) as error:  # what a model does wrong is a fact about the unit
        if interrupted := error if isinstance(error, Interrupted) else stopped():
            facts |= {"status": "interrupted", "reason": str(interrupted)}
            _write(cfg, facts, began, notes, {}, force)
            raise interrupted from None
        if isinstance(error, OSError) and error.errno in DISK_FAULTS:
            raise UserError(disk_fault(error)) from error
        outcome = _failure(error)
    try:
        unit = _write(cfg, facts | outcome, began, notes, companions, force)
    except (ValueError, RecursionError) as error:  # a model may return what no record or file can hold
        unit = _write_rest(cfg, facts | outcome | _unstored(error, outcome), began, notes, companions)
    if unit.record.done:
        run.forget()
    return unit


@contextmanager
def _same_folder() -> Iterator[None]:
    """Come back to the current folder, wherever a model goes: relative paths mean what they meant."""
    here = os.getcwd()
    try:
        yield
    finally:
        os.chdir(here)


def _failure(error: BaseException) -> dict:
    kind = type(error).__name__
    status = "oom" if kind in OUT_OF_MEMORY else "failed"
    reason = f"{kind}: {message(error)}{in_user_file(error)}"
    if isinstance(error, ModelError):
        reason = message(error)
    elif isinstance(error, SystemExit):
        reason = f"the model called sys.exit({error.code!r}){in_user_file(error)}"
    return {"status": status, "reason": reason, "details": {"traceback": _traceback()}}


def _traceback() -> str:
    """Return the traceback without the folders of this machine, since records are shared."""
    return re.sub(r'File "([^"]+)"', lambda found: f'File "{_short_path(found[1])}"', traceback.format_exc())


def _short_path(name: str) -> str:
    path = Path(name)
    for folder in (Path(__file__).resolve().parents[1], Path.cwd()):
        if path.is_relative_to(folder):
            return str(path.relative_to(folder))
    return name.rpartition("site-packages/")[2] if "site-packages/" in name else path.name


def _unstored(error: Exception, outcome: dict) -> dict:
    """Return the changed fields of a finished run that cannot be stored: metrics and plain numbers stay."""
    numbers = (int, float, type(None))
    training = {k: v for k, v in outcome.get("training", {}).items() if isinstance(v, numbers)}
    return {
        **_failure(error),
        "status": "failed",
        "reason": f"cannot be stored: {message(error)}",
        "training": training,
    }


def _write_rest(cfg: dict, fields: dict, began: float, notes: list[str], companions: dict) -> Unit:
    """Store a failed run with short notes and its files, or without files if they cannot be stored."""
    short = [text[:MAX_NOTE] for text in notes[:MAX_NOTES]]
    try:
        return _write(cfg, fields, began, short, companions, False)
    except ValueError:
        return _write(cfg, fields, began, short, {}, False)


def _done(cfg: dict, split: Split) -> Unit | None:
    """The finished unit of a config, found without its model: before TensorFlow is needed."""
    return find_done(cfg["paths"]["results"], cfg, run_key(cfg, split.data_hash))


def rescore(
    unit: Unit, cfg: dict | None = None, note=lambda text: None, allow_models: Sequence[str] = ()
) -> Unit:
    """Evaluate a finished unit again from its stored parameters; the facts of its training stay."""
    check_allowed(unit, allow_models)
    record = unit.record
    cfg = cfg or record.config
    split = load_split(cfg, note)
    if is_trial(cfg):
        split = split.on_validation()
    if split.data_hash != record.data_hash:
        raise UserError(f"{unit.path}: the data are not those it was trained on; fetch the dataset again")
    model = create(cfg)
    model.load_parameters(load_parameters(unit, allow_models))
    evaluation = evaluate_model(model, split, cfg, run_seed(cfg))
    metrics = scores(evaluation, model, split, cfg, run_seed(cfg))
    for text in evaluation.notes:
        note(text)
    given = ("dataset", "model", "inference", "protocol", "split", "seed", "experiment", "config")
    kept = {k: v for k, v in record.items() if k not in ("finished", "schema", "files", *given)}
    kept |= _scores(evaluation, split) | {"metrics": metrics, "versions": versions()}
    results, companions = unit.path.parents[4], _companions(evaluation, model, _transform(cfg, split))
    return write_unit(results, build_record(cfg, **kept), **companions, force=True)


def run_seed(cfg: dict) -> int:
    """The seed of training and evaluation. Where every split is split 0, the split's number joins it."""
    return cfg["seed"] + (cfg["split"] if cfg["protocol"]["split_rule"] == "fixed_zero" else 0)


def evaluation_protocol(model, cfg: dict) -> dict:
    """The protocol as a model needs it: latent variables take more test samples than inner layers do."""
    protocol = dict(cfg["protocol"])
    if getattr(model, "latent", False):
        protocol |= {"test_samples": protocol["latent_samples"]}
    if getattr(model, "discrete", False):
        protocol |= {"kde_rows": 0}  # draws on a few values have no density to estimate
    return protocol


def evaluate_model(model, split: Split, cfg: dict, seed: int, progress: Progress | None = None) -> Evaluation:
    """Scores of a fitted model on the rows its protocol evaluates: test, or validation in a tuning trial."""
    protocol = evaluation_protocol(model, cfg)
    density, threads = getattr(model, "log_density", None), getattr(model, "threads", None) or 1
    config_dirs = cfg["paths"].get("config_dirs", ())
    return evaluate(model.predict, split, protocol, seed, density, threads, progress, config_dirs)


def scores(evaluation: Evaluation, model, split: Split, cfg: dict, seed: int) -> dict:
    """Metrics for the record: those of the test rows, and where rows are held out for tuning, theirs too.

    A tuning trial has validation metrics only.
    """
    if is_trial(cfg):
        return _validation_names(evaluation.metrics)
    metrics = dict(evaluation.metrics)
    if cfg["protocol"].get("layer_variances") and hasattr(model, "inside"):
        metrics |= model.inside(split, seed)
    values = split_parameters(model.parameters())[0] if split.image else {}
    if "likelihood/variance" in values:
        metrics[LIKELIHOOD_VARIANCE] = float(values["likelihood/variance"])
    if split.rows_valid is not None:
        metrics |= _validation_names(evaluate_model(model, split.on_validation(), cfg, seed).metrics)
    return metrics


def _validation_names(metrics: dict) -> dict:
    return {
        name.replace("test_", "valid_", 1): value for name, value in metrics.items() if name[:5] == "test_"
    }


def plan_lines(cfg: dict, split: Split, model, seed: int) -> list[tuple[str, str]]:
    """Plan of a unit as (name, text) pairs, for the user to see before it runs."""
    inference, budget, protocol = cfg["inference"], cfg["budget"], cfg["protocol"]
    scored = "validation" if is_trial(cfg) else "test"
    sizes = f"{split.n_train:,} train + {split.n_test:,} {scored} rows, {split.dim} inputs"
    if split.classes:
        sizes += f", {split.n_classes} classes"
    splits = num_splits(cfg["dataset"], protocol)
    where = f"{split.dataset}, split {cfg['split']} of {splits} ({protocol['name']})"
    lines = [("data", f"{where}: {sizes}")]
    lines += [("prepare", text) for text in split.recipe.lines()] if split.recipe else []
    lines += [("warning", trap) for trap in split.traps]
    about = f": {model.start(split, seed)}" if hasattr(model, "start") else ""
    lines.append(("model", f"{cfg['model']['name']}{about}"))
    if hasattr(model, "start"):
        batch = min(inference["batch"], split.n_train)
        length = budget_text(budget, split.n_train)
        how = f"batch {batch:,}, {length}, {cfg['precision']}"
        if cfg["model"].get("own_training"):
            how = f"all rows, at most {length}, float64"
        lines.append(("inference", f"{inference['name']}, {how}, seed {seed}"))
        lines += method_lines(cfg)
        lines.append(("device", f"{describe_device(model)}, {model.threads} threads"))
    lines += [("deviates", text) for text in deviations(cfg)]
    return lines


def expected_time(cfg: dict, split: Split, key: str) -> str:
    """Return how long a run is expected to take, and what the estimate rests on.

    `key` is its config_key.
    """
    from dgpbench.progress import clock

    results = Path(cfg["paths"]["results"])
    wanted = tuple(cfg[group]["name"] for group in ("dataset", "model", "inference"))
    records = Costs(own_records(results, [wanted], MOST_OWN[0]), reference_folders(results))
    outputs = split.n_classes if split.n_classes > 2 else split.outputs
    sizes = Sizes(split.n_train, split.dim, split.n_test, outputs)
    found = records.expect(cfg, key, split.data_hash, sizes, fresh=True)
    if found is None:
        return "unknown, no record is like this run"
    return f"about {clock(max(1.0, found.seconds))}, from {found.source}"


def method_lines(cfg: dict) -> list[tuple[str, str]]:
    """Return the lines of the plan on what a method derives: its precision, the phases of a sampler."""
    model = cfg["model"]
    if model["_target_"] == SAMPLED:
        burn_in, thinning = burn_in_and_thinning(cfg)
        phases = f"{burn_in:,} steps of burn-in, then a sample of each chain {every(thinning)}"
        return [("sampling", phases)]
    if "layers" not in model:
        return []
    method, lines = create_method(cfg), []
    if (needed := method.precision(model)) != "mixed":
        lines.append(("precision", f"{needed}, which inference={cfg['inference']['name']} needs"))
    return lines + ([("sampling", phases)] if (phases := method.schedule()) else [])


def _collector(notes: list[str], reporter):
    def note(text: str) -> None:
        notes.append(text)
        reporter.note(text)

    return note


def _with_machine(cfg: dict, model) -> dict:
    """Config with device and threads for its key if the budget is of time: they decide how far it gets."""
    if cfg["budget"]["seconds"] is None:
        return cfg
    return cfg | {"device": describe_device(model), "threads": getattr(model, "threads", None)}


def context(cfg: dict, key: str, rows: int, note: Callable[[str], None], reporter: Silent) -> RunContext:
    """Return what `fit` is told about a run with `rows` training rows."""
    engine, budget = cfg["engine"], budget_of(cfg)
    return RunContext(
        key=key,
        folder=unit_folder(cfg["paths"]["results"], labels_of(cfg), key),
        seed=run_seed(cfg),
        steps=planned_steps(budget, rows),
        seconds=budget["seconds"],
        stop=StopRule.of(budget),
        reporter=reporter,
        note=note,
        block_seconds=engine["block_seconds"],
        checkpoint_seconds=engine["checkpoint_seconds"],
    )


def _facts(cfg: dict, split: Split, model, key: str) -> dict:
    return {
        "key": key,
        "config_key": config_key(cfg, split.data_hash),
        "deviations": deviations(cfg),
        "data_hash": split.data_hash,
        "sizes": {
            "n_train": split.n_train,
            "n_test": split.n_test,
            "inputs": split.dim,
            "outputs": split.outputs,
        }
        | ({"classes": split.n_classes} if split.classes else {}),
        "threads": getattr(model, "threads", None),
        "device": describe_device(model),
        "git_commit": git_commit(),
    }


def _training(trained) -> dict:
    """Fields of the record from the answer of `fit`: a dataclass or a mapping; anything else gives none."""
    facts = asdict(trained) if is_dataclass(trained) else dict(trained) if isinstance(trained, dict) else {}
    return {"steps_per_second": facts.pop("steps_per_second", None), "training": facts}


def _scores(evaluation: Evaluation, split: Split) -> dict:
    recipe = {"prepare": split.recipe.document()} if split.recipe else {}
    return {
        "metrics": evaluation.metrics,
        "details": evaluation.details | recipe,
        "predict_seconds": evaluation.predict_seconds,
        "evaluate_seconds": evaluation.seconds,
    }


def _transform(cfg: dict, split: Split) -> Transform:
    return Transform.of(split, split.recipe.names if split.recipe else input_names(cfg["dataset"]))


def _companions(evaluation: Evaluation, model, transform: Transform) -> dict:
    """The files beside a record; what cannot be stored is known before the record is written."""
    values, file = split_parameters(model.parameters())
    params = plain_arrays(values | transform.arrays() if values or file else {})
    tables = {"predictions": evaluation.predictions, "draws": evaluation.draws}
    return tables | {"params": params, "model": file}


def _write(cfg, fields: dict, began: float, notes: list[str], companions: dict, force: bool) -> Unit:
    fields = fields | {"wall_seconds": time.perf_counter() - began, "notes": notes, "versions": versions()}
    fields["peak_memory_bytes"] = peak_memory()
    redo = force and fields["status"] == "done"  # a done record gives way to nothing less
    return write_unit(cfg["paths"]["results"], build_record(cfg, **fields), **companions, force=redo)
