"""A model that predicts zero, and on one split misbehaves in a named way."""

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from dgpbench.engine import checkpoint
from dgpbench.errors import Diverged, Interrupted
from dgpbench.evaluate.predictive import Predictive


class Stub:
    def __init__(self, cfg):
        self.cfg = cfg["model"]
        self.bad = cfg["split"] == self.cfg["on_split"]
        if self.bad and self.cfg["deed"] == "broken":
            raise RuntimeError("cannot be built")

    def fit(self, split, run):
        self.run = run
        if self.cfg["mark"]:  # one line per start of a unit
            with open(self.cfg["mark"], "a") as file:
                file.write(f"{split.index} {os.getpid()}\n")
        if self.bad:
            getattr(self, f"_{self.cfg['deed']}")()
        else:
            time.sleep(self.cfg["seconds"])

    def predict(self, X, samples, seed):
        return Predictive(mean=np.zeros((1, len(X), 1)), var=np.ones((1, len(X), 1)))

    def parameters(self):
        return {"nothing": np.zeros(0)}

    def load_parameters(self, values):
        pass

    def _none(self):
        time.sleep(self.cfg["seconds"])

    def _fail(self):
        print("about to fail", flush=True)
        raise RuntimeError("no luck today")

    def _diverge(self):
        raise Diverged("the bound is not finite")

    def _kill(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def _crash(self):
        ctypes.string_at(0)

    def _exit(self):
        os._exit(3)

    def _sleep(self):
        time.sleep(60)

    def _import(self):
        """As native code that is stopped while it is imported: the handler's error becomes another."""
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except Exception:
            raise ImportError("initialization failed") from None

    def _stubborn(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)

    def _eat(self):
        eaten = []
        for _ in range(200):
            eaten.append(np.ones(4_000_000))
            time.sleep(0.01)

    def _steps(self):
        """As the engine does it: a signal is noted, the step ends with a report, the state is saved."""
        noted = []
        signal.signal(signal.SIGTERM, lambda number, frame: noted.append(number))
        self.run.reporter.start(10**6, None)
        checkpoint.save(self.run.folder, self.run.key, {"step": np.asarray(0)})
        for step in range(1, 6000):
            time.sleep(0.01)
            if noted:
                time.sleep(1.1)  # reports are a second apart: this one is sent
            self.run.reporter.update(step, -1.0, 100.0, None)
            if noted:
                checkpoint.save(self.run.folder, self.run.key, {"step": np.asarray(step)})
                raise Interrupted(noted[0], step)

    def _spawn(self):
        """Leaves a process behind."""
        left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
        Path(self.cfg["mark"] + ".pid").write_text(str(left.pid))

    def _crowd(self):
        """Has another process take the memory."""
        eater = "import time; eaten = bytearray(b'x') * 900_000_000; time.sleep(60)"
        subprocess.run([sys.executable, "-c", eater])

    def _wander(self):
        os.chdir("/")

    def _broken_disk(self):
        raise OSError(errno.EIO, os.strerror(errno.EIO), "/disk/file")

    def _once(self):
        """Killed the first time, well behaved the second."""
        mark = Path(self.cfg["mark"] + ".once")
        if not mark.exists():
            mark.touch()
            self._kill()
