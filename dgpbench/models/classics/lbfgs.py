"""Training of a GPflow model by L-BFGS, within a run's budget."""

from __future__ import annotations

import math
import time
from typing import Any

from dgpbench.engine.context import RunContext
from dgpbench.engine.platform import tf
from dgpbench.errors import Diverged, import_gpflow

SEARCH = 20  # evaluations of one line search, at most
REFUSALS = 200  # points without a Cholesky factor, at most


class Watch:
    """The objective, and what a look at each iteration needs: the last value, the clock, the count."""

    def __init__(self, model: Any, run: RunContext):
        self.run, self.steps, self.evaluations, self.refused = run, 0, 0, 0
        self.began, self.cpu_began = time.perf_counter(), time.process_time()
        self.loss = math.inf
        self._objective = tf.function(model.training_loss, autograph=False)
        self._variables = model.trainable_variables

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def objective(self) -> tf.Tensor:
        """The loss. Where it is not finite or a Cholesky factor fails, it is far worse than before: the line
        search goes back."""
        self.evaluations += 1
        at = f"at iteration {self.steps}"
        try:
            value = self._objective()
            reason = f"the evidence is not finite {at}"
        except tf.errors.InvalidArgumentError as error:
            value, reason = math.nan, f"no Cholesky factor {at}: {_first(error)}"
        if math.isfinite(float(value)):
            self.loss = float(value)
            return value
        self.refused += 1
        if self.refused > REFUSALS or not math.isfinite(self.loss):
            raise Diverged(reason)
        nothing = tf.add_n([0.0 * tf.reduce_sum(v) for v in self._variables])
        return nothing + self.loss + abs(self.loss) + 1.0

    def step(self, *_) -> None:
        """One iteration has ended; StopIteration when the time is over."""
        self.steps += 1
        if not math.isfinite(self.loss):
            raise Diverged(f"the evidence is not finite at iteration {self.steps}")
        self.run.reporter.update(self.steps, -self.loss, self.steps / self.seconds, None)
        if self.run.seconds is not None and self.seconds >= self.run.seconds:
            raise StopIteration


def maximise(model: Any, run: RunContext, frozen_steps: int = 0, patient: bool = False) -> dict[str, Any]:
    """Train all parameters, kernel and likelihood only after `frozen_steps` iterations; facts for the record.

    run.steps is the most iterations of both phases, run.seconds the time after which the next is the last.
    `patient`: as long as there is any progress, however small.
    """
    gpflow = import_gpflow()

    watch = Watch(model, run)
    steps = run.steps if run.steps is not None else 2**31 - 1
    held = {id(v) for part in (model.kernel, model.likelihood) for v in part.trainable_variables}
    free = [v for v in model.trainable_variables if id(v) not in held]
    phases = [(min(frozen_steps, steps), free), (steps - min(frozen_steps, steps), model.trainable_variables)]
    run.reporter.start(run.steps, run.seconds)
    result = None
    try:
        for limit, variables in phases:
            late = run.seconds is not None and watch.seconds >= run.seconds
            if not limit or (result and late):
                continue
            options = {"maxiter": limit, "maxfun": min(SEARCH * limit, 2**31 - 1)}
            if patient:
                options |= {"ftol": 0.0, "gtol": 0.0}
            result = gpflow.optimizers.Scipy().minimize(
                watch.objective, variables, step_callback=watch.step, compile=False, options=options
            )
    finally:
        run.reporter.stop()
    evidence = -float(model.training_loss())
    if not math.isfinite(evidence):
        raise Diverged("the evidence is not finite")
    seconds = watch.seconds
    return {
        "evidence": evidence,
        "converged": bool(result.success),
        "stopped": str(result.message),
        "steps": watch.steps,
        "evaluations": watch.evaluations,
        "refused": watch.refused,
        "seconds": seconds,
        "cpu_seconds": time.process_time() - watch.cpu_began,
        "steps_per_second": watch.steps / seconds,
    }


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200]
