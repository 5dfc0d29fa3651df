"""Experiment trackers: runs logged to MLflow, Weights & Biases and TensorBoard, or to a class of yours.

A tracker only watches: it is not part of a run's key, and a failure drops the tracker and not the run.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from dgpbench.config.classes import load_class
from dgpbench.config.sections import flatten
from dgpbench.engine import checkpoint
from dgpbench.errors import Interrupted, UserError, message
from dgpbench.store.layout import RECORD
from dgpbench.store.untrusted import parse_json, read_regular
from dgpbench.store.write import locked

IDS = "tracker.json"  # in the folder of an unfinished run: the trackers' own names for it
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
NOT_LOGGED = ("paths", "launcher", "engine", "tracker")
TENSORBOARD = {"name": "tensorboard", "_target_": "dgpbench.trackers.TensorBoard"}
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}  # of unset variables
SECRET = re.compile(r"KEY|TOKEN|PASSWORD|SECRET")  # in names of environment variables


@dataclass(frozen=True)
class TrackedRun:
    """A run as trackers see it.

    Attributes
    ----------
    key : str
        The run's key, 64 hexadecimal digits.
    labels : dict of str
        Dataset, model, inference, protocol, split and seed.
    settings : dict
        The config by dotted name, without paths and machine settings.
    folder : Path
        The run's folder.
    resume : str or None
        What `start` returned before the run was interrupted.
    """

    key: str
    labels: dict[str, str]
    settings: dict[str, Any]
    folder: Path
    resume: str | None = None

    @property
    def name(self) -> str:
        """Short name for display."""
        return "{dataset} {model} split {split} seed {seed}".format(**self.labels)


class Tracker(Protocol):
    """Interface of a tracker; it is created with the fields of its yaml file.

    Optional: `artifact(path)` uploads a file; it is called if `tracker.artifacts` is true. `package` names a
    package that must be installed.
    """

    def __init__(self, settings: dict[str, Any]) -> None: ...

    def start(self, run: TrackedRun) -> str | None:
        """Open a run; return a name by which it can be resumed, or None."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log finite numbers at a training step."""

    def finish(self, status: str, metrics: Mapping[str, float]) -> None:
        """Close the run with the status and metrics of its record."""


class Tracking:
    """The trackers of one run. One that fails is dropped with a note, and the run continues.

    Parameters
    ----------
    cfg : dict
        The composed config: `tracker`, and `engine.tensorboard`.
    note : callable
        Prints a line and stores it in the record.
    """

    def __init__(self, cfg: dict, note: Callable[[str], None]):
        self._note, self._open = note, True
        self._trackers = {section["name"]: _create(section) for section in _sections(cfg)}
        self._cfg, self._folder = cfg, Path()

    def start(self, key: str, folder: Path) -> None:
        """Open a run in every tracker, or resume the run that was interrupted."""
        if not self._trackers:
            return
        self._folder, known = folder, _known(folder, key)
        labels = {group: self._cfg[group]["name"] for group in ("dataset", "model", "inference", "protocol")}
        labels |= {name: str(self._cfg[name]) for name in ("split", "seed")}
        settings = flatten({name: part for name, part in self._cfg.items() if name not in NOT_LOGGED})
        ids = {}
        with locked(Path(self._cfg["paths"]["results"])):  # one worker at a time creates a local store
            for name, tracker in list(self._trackers.items()):
                run = TrackedRun(key, labels, settings, folder, known.get(name))
                ids[name] = self._call(name, lambda tracker=tracker, run=run: tracker.start(run))
        ids = {name: text for name, text in ids.items() if isinstance(text, str) and ID.fullmatch(text)}
        with suppress(OSError):  # without it, a resumed run is a new one for the tracker
            if ids:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / IDS).write_text(json.dumps(ids))

    def log(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Log the metrics that are finite numbers."""
        numbers = _finite(metrics)
        for name, tracker in list(self._trackers.items()) if numbers else ():
            self._call(name, lambda tracker=tracker: tracker.log(step, numbers))

    def finish(
        self, status: str, metrics: Mapping[str, float | None], files: Mapping[str, dict] = {}
    ) -> None:  # noqa: B006
        """Close the run in every tracker; `files` are those of its record."""
        if not self._open:
            return
        self._open = False
        paths = [self._folder / entry.get("name", name) for name, entry in files.items()]
        for name, tracker in list(self._trackers.items()):
            if self._cfg["tracker"].get("artifacts") and hasattr(tracker, "artifact"):
                for path in (self._folder / RECORD, *paths):
                    self._call(name, lambda tracker=tracker, path=path: tracker.artifact(path))
            if name in self._trackers:
                self._call(name, lambda tracker=tracker: tracker.finish(status, _finite(metrics)))
        if status != "interrupted":
            with suppress(OSError):
                (self._folder / IDS).unlink(missing_ok=True)

    def __enter__(self) -> Tracking:
        return self

    def __exit__(self, kind: type | None, *rest: object) -> None:
        stopped = kind is not None and issubclass(kind, (Interrupted, KeyboardInterrupt))
        self.finish("interrupted" if stopped else "failed", {})

    def _call(self, name: str, work: Callable[[], Any]) -> Any:
        """Call a tracker; on failure, drop it."""
        if name not in self._trackers:
            return None
        try:
            return work()
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a tracker does wrong, the run goes on
            del self._trackers[name]
            what = _masked(f"{type(error).__name__}: {message(error)}")[:300]
            self._note(f"tracker={name} failed and is no longer used ({what}); the run continues")
            return None


def check_tracker(cfg: dict) -> None:
    """Raise UserError unless the config's trackers can be created here."""
    for section in _sections(cfg):
        _create(section)


def _sections(cfg: dict) -> list[dict]:
    """Settings of the config's trackers; plans from before there were trackers have none."""
    found = [cfg["tracker"]] if cfg.get("tracker", {}).get("name", "none") != "none" else []
    if cfg["engine"].get("tensorboard") and not any(part["name"] == "tensorboard" for part in found):
        found.append(TENSORBOARD)
    return found


def _create(section: dict) -> Tracker:
    target, name = str(section.get("_target_")), section["name"]
    kind = load_class("tracker._target_", target)
    if missing := [method for method in ("start", "log", "finish") if not hasattr(kind, method)]:
        raise UserError(f"tracker._target_={target} lacks {', '.join(missing)}; see docs/trackers.md")
    package = getattr(kind, "package", None)
    if package and find_spec(package) is None:
        install = f"pip install 'dgpbench[{package}]'" if target.startswith("dgpbench.") else "install it"
        raise UserError(f"tracker={name} needs the package {package}, which is not installed; {install}")
    return kind(section)


def _known(folder: Path, key: str) -> dict[str, str]:
    """What the trackers called the run before it was interrupted; empty if it starts from step 0."""
    try:
        ids = parse_json(read_regular(folder / IDS, 4096))
        if isinstance(ids, dict) and checkpoint.key_of(folder) == key:
            return {name: text for name, text in ids.items() if isinstance(text, str) and ID.fullmatch(text)}
    except (OSError, ValueError):
        pass
    return {}


def _finite(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {k: float(v) for k, v in metrics.items() if v is not None and math.isfinite(v)}


def _masked(text: str) -> str:
    """An error message without credentials: notes are stored in records."""
    text = re.sub(r"//[^/\s@]*@", "//***@", text)
    for name, value in os.environ.items():
        if SECRET.search(name.upper()) and len(value) >= 6:
            text = text.replace(value, "***")
    return text


class MLflow:
    """MLflow through its client: a local store or a server."""

    package = "mlflow"

    def __init__(self, settings: dict[str, Any]):
        self.settings = settings

    def start(self, run: TrackedRun) -> str:
        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
        mlflow = importlib.import_module("mlflow")
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self.entities, self.client = mlflow.entities, mlflow.MlflowClient(self.settings["uri"])
        if run.resume:
            with suppress(mlflow.exceptions.MlflowException):
                self.client.update_run(run.resume, status="RUNNING")
                self.id = run.resume
                return self.id
        tags = {f"dgpbench.{name}": text for name, text in (run.labels | {"key": run.key}).items()}
        made = self.client.create_run(self._experiment(mlflow), run_name=run.name, tags=tags)
        self.id = made.info.run_id
        params = [self.entities.Param(name, str(value)[:500]) for name, value in run.settings.items()]
        for first in range(0, len(params), 100):  # MLflow's limit of a call
            self.client.log_batch(self.id, params=params[first : first + 100])
        return self.id

    def _experiment(self, mlflow: Any) -> str:
        name = self.settings["experiment"]
        for attempt in (1, 2):
            if found := self.client.get_experiment_by_name(name):
                return found.experiment_id
            try:
                return self.client.create_experiment(name)
            except mlflow.exceptions.MlflowException:  # another worker may have created it just now
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        now = int(1000 * time.time())
        found = [self.entities.Metric(name, value, now, step) for name, value in metrics.items()]
        self.last = step
        self.client.log_batch(self.id, metrics=found)

    def artifact(self, path: Path) -> None:
        self.client.log_artifact(self.id, str(path))

    def finish(self, status: str, metrics: Mapping[str, float]) -> None:
        if metrics:
            self.log(getattr(self, "last", 0), metrics)
        self.client.set_tag(self.id, "dgpbench.status", status)
        ends = {"done": "FINISHED", "interrupted": "KILLED"}
        self.client.set_terminated(self.id, ends.get(status, "FAILED"))


class WandB:
    """Weights & Biases, online or offline."""

    package = "wandb"

    def __init__(self, settings: dict[str, Any]):
        self.settings = settings

    def start(self, run: TrackedRun) -> str:
        self.wandb = wandb = importlib.import_module("wandb")
        mode = self.settings["mode"] or os.environ.get("WANDB_MODE") or "online"
        if mode == "online" and not wandb.login(prompt=False):
            raise UserError("no API key: run `wandb login`, set WANDB_API_KEY, or use tracker.mode=offline")
        self.run = wandb.init(
            project=self.settings["project"],
            entity=self.settings["entity"],
            dir=self.settings["folder"],
            mode=mode,
            id=run.resume or secrets.token_hex(8),
            resume="allow" if run.resume and mode == "online" else None,
            name=run.name,
            config=run.settings | {f"dgpbench.{k}": v for k, v in (run.labels | {"key": run.key}).items()},
            settings=wandb.Settings(silent=True, console="off", symlink=False),
        )
        self.run.define_metric("*", step_metric="step")  # a resumed run logs some steps again
        return self.run.id

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.run.log({"step": step, **metrics})

    def artifact(self, path: Path) -> None:
        self.run.save(str(path), base_path=str(path.parent), policy="now")

    def finish(self, status: str, metrics: Mapping[str, float]) -> None:
        self.run.summary.update({**metrics, "status": status})
        self.run.finish(exit_code=0 if status == "done" else 1)
        self.wandb.teardown()  # a sweep ends what a run has started; the next run starts its own


class TensorBoard:
    """Event files in the folder tensorboard/ of the run."""

    package = "tensorboard"

    def __init__(self, settings: dict[str, Any]):
        self.last = 0

    def start(self, run: TrackedRun) -> None:
        files = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        self.events = importlib.import_module("tensorboard.compat.proto.event_pb2")
        self.summaries = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        self.scalars = importlib.import_module("tensorboard.plugins.scalar.summary_v2")
        hparams = importlib.import_module("tensorboard.plugins.hparams.summary_v2")
        self.writer = files.EventFileWriter(str(run.folder / "tensorboard"))
        plain = {k: v if isinstance(v, (bool, int, float)) else str(v) for k, v in run.settings.items()}
        self._write(0, hparams.hparams_pb(plain | {"key": run.key}, trial_id=run.key))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._write(step, self.scalars.scalar_pb(name, value))
        self.last = step

    def _write(self, step: int, summary: Any) -> None:
        same = self.summaries.Summary.FromString(summary.SerializeToString())  # the other may be TensorFlow's
        self.writer.add_event(self.events.Event(wall_time=time.time(), step=step, summary=same))

    def finish(self, status: str, metrics: Mapping[str, float]) -> None:
        if metrics:
            self.log(self.last, metrics)
        self.writer.close()
