"""A model that trains like the engine does, in steps with checkpoints, but starts in a moment."""

import signal
import time

import numpy as np

from dgpbench.engine import checkpoint
from dgpbench.errors import Interrupted
from dgpbench.evaluate.predictive import Predictive


class Walker:
    def __init__(self, cfg):
        self.cfg, self.state = cfg["model"], np.zeros(50)

    def fit(self, split, run):
        noted, step = [], 0
        before = signal.signal(signal.SIGTERM, lambda number, frame: noted.append(number))
        if found := checkpoint.load(run.folder, run.key):
            step, self.state = int(found["step"]), found["state"]
        resumed, saved = [step] if step else [], time.monotonic()
        run.reporter.start(self.cfg["length"], None)
        try:
            while step < self.cfg["length"]:
                rng = np.random.default_rng((run.seed, split.index, step))
                self.state, step = np.tanh(self.state * 1.01 + 0.1 * rng.normal(size=50)), step + 1
                time.sleep(self.cfg["pause"])
                run.reporter.update(step, -1.0, 100.0, None)
                if noted or time.monotonic() - saved > self.cfg["save_seconds"]:
                    checkpoint.save(run.folder, run.key, {"step": np.asarray(step), "state": self.state})
                    saved = time.monotonic()
                if noted:
                    raise Interrupted(noted[0], step)
        finally:
            signal.signal(signal.SIGTERM, before)
        return {"steps": step, "resumed_from": resumed}

    def predict(self, X, samples, seed):
        mean = np.full((1, len(X), 1), self.state.sum())
        return Predictive(mean=mean, var=np.ones((1, len(X), 1)))

    def parameters(self):
        return {"state": self.state}

    def load_parameters(self, values):
        self.state = values["state"]
