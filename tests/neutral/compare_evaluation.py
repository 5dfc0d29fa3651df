"""Evaluation of two checkouts in turns: one process each, one model at a time, never both at once.

    taskset -c 1 python tests/neutral/compare_evaluation.py OLD NEW [turns=7] [model ...]

OLD and NEW are folders with a checkout. Models and rows are those of `python -m benchmarks --evaluation`,
with the same method of inference. Prints processor milliseconds per test row on one thread (medians over
turns) of metrics, of prediction and of all, and how far each metric is from OLD's, relative to it.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODELS = ("sgp", "dgp2", "lv_gp_gp")
FIRST_DEFAULT = ("inference=fast",)  # where the model's line names no inference: checkouts differ in theirs


class Timed:
    """A model with a stopwatch for processor time on what it predicts."""

    def __init__(self, model):
        self.model, self.latent, self.threads, self.spent = model, getattr(model, "latent", False), 1, 0.0

    def predict(self, *args):
        return self._timed(self.model.predict, *args)

    def log_density(self, *args):
        return self._timed(self.model.log_density, *args)

    def _timed(self, function, *args):
        began = time.process_time()
        out = function(*args)
        self.spent += time.process_time() - began
        return out


def fitted(name: str, folder: str):
    """Config, split and model after five steps."""
    try:
        from benchmarks import evaluation
    except ImportError:  # a checkout of before
        from dgpbench.perf import evaluation

    from dgpbench.config import compose
    from dgpbench.data import load_split
    from dgpbench.engine.context import RunContext, Silent
    from dgpbench.models.base import create

    most = evaluation.LATENT_ROWS if name.startswith("lv") else evaluation.ROWS
    own = evaluation.MODELS[name]
    named = any(word.startswith("inference=") for word in own)
    given = [*evaluation.SHARED, *own, *(() if named else FIRST_DEFAULT)]
    cfg = compose([*given, "threads=1", f"paths.datasets={folder}", f"protocol.max_test={most}"])
    split, model = load_split(cfg), create(cfg)
    model.fit(split, RunContext("", Path(folder), 0, 5, None, Silent(), lambda text: None))
    return cfg, split, model


def serve(name: str) -> None:
    """In a child: fit a model, then evaluate it as often as asked for on stdin; times go to stdout."""
    from dgpbench.experiment import evaluate_model

    with tempfile.TemporaryDirectory(prefix="dgpbench-perf-") as folder:
        cfg, split, model = fitted(name, folder)
        evaluate_model(Timed(model), split, cfg, 0)
        print("ready", flush=True)
        for _ in sys.stdin:
            timed, began = Timed(model), time.process_time()
            made = evaluate_model(timed, split, cfg, 0)
            whole = time.process_time() - began
            each = 1000 / len(made.predictions["row"])
            told = {"all": whole * each, "predict": timed.spent * each, "metrics": made.metrics}
            print(json.dumps(told), flush=True)


class Checkout:
    """A child process that evaluates one model of one checkout."""

    def __init__(self, folder: str, name: str):
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        env = os.environ | {"PYTHONPATH": folder} | threads
        command = [sys.executable, os.path.abspath(__file__), "serve", name]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=env, text=True, cwd=folder, **pipes)
        while self.process.stdout.readline().strip() != "ready":
            if self.process.poll() is not None:
                raise SystemExit(f"{folder}: {name} did not start")

    def ask(self) -> dict:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def compare(old: str, new: str, name: str, turns: int) -> None:
    pair = Checkout(old, name), Checkout(new, name)
    try:
        told: list[list[dict]] = [[], []]
        for turn in range(turns):
            for i in (0, 1) if turn % 2 else (1, 0):
                told[i].append(pair[i].ask())
    finally:
        for checkout in pair:
            checkout.close()
    for part in ("metrics", "predict", "all"):
        took = [[_milliseconds(one, part) for one in each] for each in told]
        middle = [statistics.median(each) for each in took]
        ratios = [a / b for a, b in zip(*took, strict=True)]
        print(
            f"{name:10} {part:8} {middle[0]:8.4f} -> {middle[1]:8.4f} ms per row, "
            f"{middle[0] / middle[1]:.2f}x (turns {min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )
    first, last = (each[0]["metrics"] for each in told)
    moved = {k: abs(last[k] - v) / max(abs(v), 1e-300) for k, v in first.items() if v}
    print(f"{name:10} moved by: " + ", ".join(f"{k} {v:.1e}" for k, v in moved.items()), flush=True)


def _milliseconds(told: dict, part: str) -> float:
    return told["all"] - told["predict"] if part == "metrics" else told[part]


def main() -> None:
    old, new, *rest = sys.argv[1:]
    options = dict(word.split("=") for word in rest if "=" in word)
    for name in [word for word in rest if "=" not in word] or MODELS:
        compare(old, new, name, int(options.get("turns", 7)))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        main()
