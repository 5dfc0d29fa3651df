"""The training loop: blocks of compiled steps with progress, checkpoints, recovery and a budget.

A block is what runs between two looks at the clock. Since a step's result depends on (seed, step) only, block
sizes follow the measured rate without touching the numbers.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from dgpbench.engine import checkpoint
from dgpbench.engine.batches import Batches
from dgpbench.engine.context import RunContext, TrainResult
from dgpbench.engine.platform import tf
from dgpbench.errors import Diverged, Interrupted, UserError

MAX_RECOVERIES = 5  # at one step; each raises the jitter tenfold
MAX_BLOCK_ROWS = 2_000_000  # row numbers handed over with one block
MAX_STREAM_BYTES = 64 << 20
TRACE_POINTS = 200
LOOK_AFTER = 1.1
LAST_BLOCK = 100  # the bound of a record is the mean over this many last steps, or a tenth of a short run


class Trainer(Protocol):
    """Compiled steps, as the loop asks for them (engine/trainer.py).

    Reports have bound_mean, bound_last and refused, and step_size where a step is searched for.
    """

    row_width: int  # numbers in one row of X and Y

    def state(self) -> dict[str, np.ndarray]: ...

    def restore(self, state: dict[str, np.ndarray]) -> None: ...

    def recover(self, attempt: int) -> float | None:
        """After `restore`: change what may help, for the attempt-th time; the jitter it takes, or None."""

    def run(self, start: int, rows: np.ndarray) -> dict: ...

    def run_streamed(self, start: int, X: np.ndarray, Y: np.ndarray) -> dict: ...


def train(
    trainer: Trainer,
    batches: Batches,
    run: RunContext,
    take: Callable | None = None,
    look: Callable[[int], float] | None = None,
) -> TrainResult:
    """Advance `trainer` to the end of its budget, from its checkpoint if there is one.

    `take(rows) -> X, Y` streams minibatches from disk; None when the data is resident. `look(steps)` gives a
    number for the trace whenever there are LOOK_AFTER times as many steps, and at the end; its time is free.
    """
    result = _resume(trainer, run)
    feed = _Feed(trainer, batches, take)
    stop = _Signals()
    writer = _trace_writer(run) if run.tensorboard else None
    run.reporter.training(trainer)
    run.reporter.start(run.steps, run.seconds)
    saved = time.perf_counter()
    size, rate_steps, rate_seconds = 1, 0, 0.0
    first, next_look = True, 0.0
    try:
        with stop:
            while not _finished(result, run):
                size = _fit_in(size, result.steps, run.steps)
                began, cpu = time.perf_counter(), time.process_time()
                report = _guarded(trainer, feed, result, size, run)
                elapsed = time.perf_counter() - began
                if first:
                    result.compile_seconds += elapsed
                else:
                    result.seconds += elapsed
                    result.cpu_seconds += time.process_time() - cpu
                    rate_steps, rate_seconds = rate_steps + size, rate_seconds + elapsed
                result.steps += size
                result.bound, result.refused = report["bound_mean"], result.refused + report["refused"]
                seen = None
                if look and (result.steps >= next_look or _finished(result, run)):
                    seen, next_look = look(result.steps), LOOK_AFTER * result.steps
                more = report.get("step_size"), seen
                result.trace.append(_entry(result.steps, round(result.seconds, 4), result.bound, *more))
                first = False
                if rate_seconds:
                    result.steps_per_second = rate_steps / rate_seconds
                    size = feed.limit(int(size * min(4.0, run.block_seconds / max(elapsed, 1e-6))) or 1)
                _show(result, run, writer)
                if stop.received or time.perf_counter() - saved > run.checkpoint_seconds:
                    _save(trainer, result, run)
                    saved = time.perf_counter()
                if stop.received:
                    raise Interrupted(stop.received, result.steps)
    finally:
        feed.close()
        run.reporter.stop()
        if writer:
            writer.close()
    result.trace = _thin(result.trace)
    return result


def _trace_writer(run: RunContext):
    try:
        import tensorboard  # noqa: F401  (tf.summary needs it)
    except ModuleNotFoundError:
        raise UserError(
            "engine.tensorboard=true needs TensorBoard; pip install 'dgpbench[tensorboard]', or leave it out"
        ) from None
    return tf.summary.create_file_writer(str(run.folder / "tensorboard"))


def _fit_in(size: int, done: int, total: int | None) -> int:
    """A block size such that the last block does not depend on the clock: the final bound is well defined."""
    if total is None:
        return size
    last = max(1, min(LAST_BLOCK, total // 10))
    left = total - done
    return min(size, left - last) if left > last else left


def _finished(result: TrainResult, run: RunContext) -> bool:
    if run.steps is not None and result.steps >= run.steps:
        return True
    return run.seconds is not None and result.seconds >= run.seconds


def _guarded(trainer: Trainer, feed: _Feed, result: TrainResult, size: int, run: RunContext) -> dict:
    """One block. A failed Cholesky or a non-finite bound leads back to its start, to be tried again as the
    trainer knows how: with a larger jitter, or not at all."""
    before, jitter = trainer.state(), None
    for attempt in range(MAX_RECOVERIES + 1):
        try:
            report = feed.run(result.steps, size)
            if np.isfinite(report["bound_mean"]) and np.isfinite(report["bound_last"]):
                return report
            reason = "the bound is not finite"
        except tf.errors.InvalidArgumentError as error:
            if "Cholesky" not in str(error) and "not invertible" not in str(error):
                raise
            reason = "Cholesky failed: a kernel matrix is not positive definite"
        trainer.restore(before)
        raised = trainer.recover(attempt + 1) if attempt < MAX_RECOVERIES else None
        if raised is None:
            break
        jitter = raised
        run.recoveries = result.recoveries
        result.recoveries.append({"step": result.steps, "reason": reason, "jitter": jitter})
        run.note(f"step {result.steps}: {reason}; going back with jitter {jitter:.0e}")
    tried = f", also with jitter {jitter:.0e}" if jitter else ""
    raise Diverged(f"{reason}, within {size} steps of step {result.steps}{tried}")


def _show(result: TrainResult, run: RunContext, writer) -> None:
    rate = result.steps_per_second
    left = None
    if rate and run.steps is not None:
        left = (run.steps - result.steps) / rate
    if run.seconds is not None:
        left = min(run.seconds - result.seconds, left if left is not None else np.inf)
    run.reporter.update(result.steps, result.bound, rate or 0.0, left)
    if writer:
        with writer.as_default(step=result.steps):
            tf.summary.scalar("bound", result.bound)
            tf.summary.scalar("steps_per_second", rate or 0.0)


def _entry(*numbers: float | None) -> list[float | None]:
    """A line of the trace, without what is missing at its end."""
    line = list(numbers)
    while line[-1] is None:
        line.pop()
    return line


def _thin(trace: list[list[float]]) -> list[list[float]]:
    """At most TRACE_POINTS entries, half of them evenly chosen, half by their logarithm, since most happens
    at the start; and all that have been looked at. First and last are kept."""
    if len(trace) <= TRACE_POINTS:
        return trace
    half, last = TRACE_POINTS // 2, len(trace) - 1
    even, early = np.linspace(0, last, half), np.geomspace(1, last + 1, half) - 1
    seen = [i for i, line in enumerate(trace) if len(line) == 5]
    return [trace[i] for i in np.unique(np.concatenate([even, early, seen]).round().astype(int))]


# ---- resuming ------------------------------------------------------------------------------------------

_FIELDS = ("steps", "seconds", "cpu_seconds", "compile_seconds", "refused")


def _pack(trainer: Trainer, result: TrainResult) -> dict[str, np.ndarray]:
    numbers = {f"result/{name}": np.asarray(getattr(result, name)) for name in _FIELDS}
    recoveries = [[r["step"], r["jitter"]] for r in result.recoveries]
    extra = {
        "result/trace": np.array([line + [np.nan] * (5 - len(line)) for line in _thin(result.trace)], float),
        "result/resumed_from": np.asarray(result.resumed_from, int),
        "result/recoveries": np.asarray(recoveries, float).reshape(-1, 2),
        "result/reasons": np.asarray([r["reason"] for r in result.recoveries], dtype=np.str_),
    }
    return trainer.state() | numbers | extra


def _save(trainer: Trainer, result: TrainResult, run: RunContext) -> None:
    """Write a checkpoint; a full disk is told, and does not end the training."""
    try:
        checkpoint.save(run.folder, run.key, _pack(trainer, result))
    except OSError as error:
        run.note(f"step {result.steps}: no checkpoint written ({error.strerror or error}); training goes on")


def _resume(trainer: Trainer, run: RunContext) -> TrainResult:
    state = checkpoint.load(run.folder, run.key)
    if state is None:
        return TrainResult()
    trainer.restore(state)
    numbers = {name: state[f"result/{name}"].item() for name in _FIELDS if f"result/{name}" in state}
    reasons = zip(state["result/recoveries"].tolist(), state["result/reasons"].tolist(), strict=True)
    recoveries = [{"step": int(s), "reason": str(why), "jitter": j} for (s, j), why in reasons]
    resumed = [*state["result/resumed_from"].tolist(), numbers["steps"]]
    trace = [_entry(*(None if np.isnan(x) else x for x in line)) for line in state["result/trace"].tolist()]
    run.note(f"resuming from the checkpoint at step {numbers['steps']}")
    return TrainResult(**numbers, trace=trace, resumed_from=resumed, recoveries=recoveries)


# ---- feeding -------------------------------------------------------------------------------------------


class _Feed:
    """Hands minibatches to the trainer: row numbers of resident data, the rows of streamed data."""

    def __init__(self, trainer: Trainer, batches: Batches, take: Callable | None):
        self.trainer, self.batches, self.take = trainer, batches, take
        self.pool = ThreadPoolExecutor(1) if take else None
        self.ahead: tuple[tuple[int, int], object] | None = None

    def limit(self, size: int) -> int:
        rows = MAX_BLOCK_ROWS
        if self.take:
            rows = MAX_STREAM_BYTES // (8 * self.trainer.row_width)
        return max(1, min(size, rows // self.batches.batch))

    def run(self, start: int, steps: int) -> dict:
        if self.take is None:
            empty = np.zeros((steps, 0), np.int32)
            return self.trainer.run(start, empty if self.batches.full else self.batches.rows(start, steps))
        if self.ahead and self.ahead[0] == (start, steps):
            X, Y = self.ahead[1].result()
        else:
            X, Y = self._read(start, steps)
        follow = (start + steps, steps)
        self.ahead = (follow, self.pool.submit(self._read, *follow))
        return self.trainer.run_streamed(start, X, Y)

    def _read(self, start: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self.batches.rows(start, steps) if not self.batches.full else None
        order = np.tile(np.arange(self.batches.num_data), steps) if rows is None else rows.reshape(-1)
        X, Y = self.take(order)
        shape = (steps, self.batches.batch)
        return X.reshape(*shape, -1), Y.reshape(*shape, -1)

    def close(self) -> None:
        if self.pool:
            self.pool.shutdown(cancel_futures=True)


class _Signals:
    """While active, SIGINT and SIGTERM only set `received`; the loop stops at the end of its block."""

    def __init__(self):
        self.received = 0
        self.previous: dict = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous[number] = signal.signal(number, self._note)
        return self

    def _note(self, number, frame):
        self.received = number

    def __exit__(self, *exc):
        for number, handler in self.previous.items():
            signal.signal(number, handler)
