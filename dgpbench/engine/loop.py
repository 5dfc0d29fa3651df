"""The training loop: blocks of compiled steps with progress, checkpoints, recovery and a budget.

A block runs between two checks of the clock. Because a step's result depends on (seed, step) alone, block
sizes follow the measured rate without changing any number.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from dgpbench.engine import checkpoint
from dgpbench.engine.batches import Batches, Feed
from dgpbench.engine.context import RunContext, Stopping, TrainResult
from dgpbench.engine.platform import tf
from dgpbench.errors import Diverged, Interrupted

MAX_RECOVERIES = 5  # at one step; each raises the jitter tenfold
TRACE_POINTS = 200
DECOMPOSITIONS = (
    "Cholesky",
    "not invertible",
    "Self-adjoint eigen decomposition",
)  # that failed, in messages
LOOK_AFTER = 1.1
LAST_BLOCK = 100  # the bound of a record is the mean over this many last steps, or a tenth of a short run


class Trainer(Protocol):
    """Compiled steps, as the loop uses them (engine/trainer.py).

    Reports have bound_mean, bound_last, refused, finite (whether all parameters are), and step_size where a
    step is searched for.
    """

    row_width: int  # numbers in one row of X and Y

    def state(self) -> dict[str, np.ndarray]: ...

    def restore(self, state: dict[str, np.ndarray]) -> None: ...

    def recover(self, attempt: int) -> float | None:
        """Prepare another attempt after `restore`; return the new jitter, or None if none can help."""

    def run(self, start: int, rows: np.ndarray) -> dict: ...

    def run_streamed(self, start: int, X: np.ndarray, Y: np.ndarray) -> dict: ...


def train(
    trainer: Trainer,
    batches: Batches,
    run: RunContext,
    take: Callable | None = None,
    look: Callable[[int], float] | None = None,
    score: Callable[[int], float] | None = None,
) -> TrainResult:
    """Advance `trainer` to the end of its budget, from its checkpoint if there is one.

    `take(rows) -> X, Y` streams minibatches from disk; None means that the data is resident. `look(steps)`
    gives a number for the trace whenever the number of steps has grown by LOOK_AFTER, and at the end. Its
    time does not count. `score(steps)` is the log-likelihood of validation rows, used by the stop rule.
    """
    stopping = Stopping(run.stop, score)
    result = _resume(trainer, run, stopping)
    feed = Feed(trainer, batches, take)
    stop = _Signals()
    run.reporter.training(trainer)
    run.reporter.start(run.steps, run.seconds)
    saved = time.perf_counter()
    size, rate_steps, rate_seconds = 1, 0, 0.0
    first, next_look = True, 0.0
    try:
        with stop:
            while not (_finished(result, run) or stopping.over):
                size = _fit_in(size, result.steps, stopping.until(result.steps, run.steps))
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
                stopping.after(result.steps, trainer)
                seen = None
                if look and (result.steps >= next_look or _finished(result, run) or stopping.over):
                    seen, next_look = look(result.steps), LOOK_AFTER * result.steps
                more = report.get("step_size"), seen
                result.trace.append(_entry(result.steps, round(result.seconds, 4), result.bound, *more))
                first = False
                if rate_seconds:
                    result.steps_per_second = rate_steps / rate_seconds
                    size = feed.limit(int(size * min(4.0, run.block_seconds / max(elapsed, 1e-6))) or 1)
                _show(result, run, seen)
                if stop.received or time.perf_counter() - saved > run.checkpoint_seconds:
                    _save(trainer, result, run, stopping)
                    saved = time.perf_counter()
                if stop.received:
                    raise Interrupted(stop.received, result.steps)
    finally:
        feed.close()
        run.reporter.stop()
    result.trace = _thin(result.trace)
    result.stopping = stopping.finish(trainer)
    if stopping.over:
        run.note(f"step {result.steps}: no gain since step {stopping.gained} (budget.stop={run.stop.rule})")
    return result


def _fit_in(size: int, done: int, total: int | None) -> int:
    """Return a block size that keeps the last block, and so the final bound, independent of the clock."""
    if total is None:
        return size
    last = max(1, min(LAST_BLOCK, total // 10))
    left = total - done
    return min(size, left - last) if left > last else left


def _finished(result: TrainResult, run: RunContext) -> bool:
    if run.steps is not None and result.steps >= run.steps:
        return True
    return run.seconds is not None and result.seconds >= run.seconds


def _guarded(trainer: Trainer, feed: Feed, result: TrainResult, size: int, run: RunContext) -> dict:
    """Run one block.

    After a failed Cholesky, a non-finite bound or a non-finite parameter, restore the state before the block
    and let the trainer try again with a larger jitter, if it can.
    """
    before, jitter = trainer.state(), None
    for attempt in range(MAX_RECOVERIES + 1):
        try:
            report = feed.run(result.steps, size)
            if np.isfinite(report["bound_mean"]) and np.isfinite(report["bound_last"]):
                if report["finite"]:
                    return report
                reason = "a parameter is not finite"  # the next bound would show it too late
            else:
                reason = "the bound is not finite"
        except tf.errors.InvalidArgumentError as error:
            if not any(words in str(error) for words in DECOMPOSITIONS):
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


def _show(result: TrainResult, run: RunContext, seen: float | None) -> None:
    rate = result.steps_per_second
    left = None
    if rate and run.steps is not None:
        left = (run.steps - result.steps) / rate
    if run.seconds is not None:
        left = min(run.seconds - result.seconds, left if left is not None else np.inf)
    run.reporter.update(result.steps, result.bound, rate or 0.0, left)
    run.log(result.steps, {"bound": result.bound, "steps_per_second": rate, "trace_test_loglik": seen})


def _entry(*numbers: float | None) -> list[float | None]:
    """Return an entry of the trace without missing numbers at its end."""
    line = list(numbers)
    while line[-1] is None:
        line.pop()
    return line


def _thin(trace: list[list[float]]) -> list[list[float]]:
    """Return at most TRACE_POINTS entries: half spaced evenly, half spaced evenly on a log scale.

    All entries with a test log-likelihood and the first and last entries are kept.
    """
    if len(trace) <= TRACE_POINTS:
        return trace
    half, last = TRACE_POINTS // 2, len(trace) - 1
    even, early = np.linspace(0, last, half), np.geomspace(1, last + 1, half) - 1
    seen = [i for i, line in enumerate(trace) if len(line) == 5]
    return [trace[i] for i in np.unique(np.concatenate([even, early, seen]).round().astype(int))]


# ---- resuming ------------------------------------------------------------------------------------------

_FIELDS = ("steps", "seconds", "cpu_seconds", "compile_seconds", "refused")


def _pack(trainer: Trainer, result: TrainResult, stopping: Stopping) -> dict[str, np.ndarray]:
    numbers = {f"result/{name}": np.asarray(getattr(result, name)) for name in _FIELDS}
    recoveries = [[r["step"], r["jitter"]] for r in result.recoveries]
    extra = {
        "result/trace": np.array([line + [np.nan] * (5 - len(line)) for line in _thin(result.trace)], float),
        "result/resumed_from": np.asarray(result.resumed_from, int),
        "result/recoveries": np.asarray(recoveries, float).reshape(-1, 2),
        "result/reasons": np.asarray([r["reason"] for r in result.recoveries], dtype=np.str_),
    }
    return trainer.state() | numbers | extra | stopping.state()


def _save(trainer: Trainer, result: TrainResult, run: RunContext, stopping: Stopping) -> None:
    """Save a checkpoint. On I/O errors, log a note and continue training."""
    try:
        checkpoint.save(run.folder, run.key, _pack(trainer, result, stopping))
    except OSError as error:
        run.note(f"step {result.steps}: no checkpoint written ({error.strerror or error}); training goes on")


def _resume(trainer: Trainer, run: RunContext, stopping: Stopping) -> TrainResult:
    state = checkpoint.load(run.folder, run.key)
    if state is None:
        return TrainResult()
    trainer.restore(state)
    stopping.restore(state)
    numbers = {name: state[f"result/{name}"].item() for name in _FIELDS if f"result/{name}" in state}
    reasons = zip(state["result/recoveries"].tolist(), state["result/reasons"].tolist(), strict=True)
    recoveries = [{"step": int(s), "reason": str(why), "jitter": j} for (s, j), why in reasons]
    resumed = [*state["result/resumed_from"].tolist(), numbers["steps"]]
    trace = [_entry(*(None if np.isnan(x) else x for x in line)) for line in state["result/trace"].tolist()]
    run.note(f"resuming from the checkpoint at step {numbers['steps']}")
    return TrainResult(**numbers, trace=trace, resumed_from=resumed, recoveries=recoveries)


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
