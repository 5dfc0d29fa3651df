"""Test rows per second: of prediction alone, and with all metrics, as a run evaluates its model."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.tables import Table
from dgpbench.engine.context import RunContext, Silent

ROWS, LATENT_ROWS = 1000, 100  # test rows; 2000 samples of latent variables take long
# the protocols say how many samples: 100, and 2000 of latent variables
MODELS: dict[str, tuple[str, ...]] = {
    "sgp": ("model=sgp",),
    "dgp2": ("model=dgp2",),
    "dgp3": ("model=dgp3",),
    "lv_gp_gp": ("model=lv_gp_gp", "inference=vi"),
    "lv_gp_gp-kde": ("model=lv_gp_gp", "inference=vi", "protocol=iwvi2019"),
}
SHARED = ("dataset=arm8", "dataset.n=10000", "protocol.train_fraction=0.9", "inference.batch=500")


def measure(models: Sequence[str], repeats: int, extra: Sequence[str], note: Callable) -> list[dict]:
    """Seconds of prediction and of the whole evaluation, medians after a first call; each model in a process
    of its own, as the thread pools of TensorFlow are those of the first model of a process."""
    found = []
    for name in models:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            one = pool.submit(_one, [*SHARED, *MODELS[name], *extra], repeats, name).result()
        whole, own = (one["rows"] / one[key] for key in ("seconds", "predict_seconds"))
        note(f"{name}: {whole:,.0f} rows/s, of prediction alone {own:,.0f}")
        found.append({"model": name} | one)
    return found


def _one(overrides: list[str], repeats: int, name: str) -> dict:
    from dgpbench.config import compose
    from dgpbench.data import load_split
    from dgpbench.experiment import evaluate_model
    from dgpbench.models.base import create

    with tempfile.TemporaryDirectory(prefix="dgpbench-perf-") as folder:
        most = LATENT_ROWS if name.startswith("lv") else ROWS
        cfg = compose([*overrides, f"paths.datasets={folder}", f"protocol.max_test={most}"])
        split, model = load_split(cfg), create(cfg)
        model.fit(split, RunContext("", Path(folder), 0, 5, None, Silent(), lambda text: None))
        spent = 0.0

        class Timed:
            """The model with a stopwatch on what it predicts."""

            latent = getattr(model, "latent", False)

            def predict(self, *args):
                return timed(model.predict, *args)

            def log_density(self, *args):
                return timed(model.log_density, *args)

        def timed(function, *args):
            nonlocal spent
            began = time.perf_counter()
            out = function(*args)
            spent += time.perf_counter() - began
            return out

        whole, predicting = [], []
        for _ in range(repeats + 1):
            spent, began = 0.0, time.perf_counter()
            evaluate_model(Timed(), split, cfg, 0)
            whole.append(time.perf_counter() - began)
            predicting.append(spent)
    seconds, own = statistics.median(whole[1:]), statistics.median(predicting[1:])
    facts = {"rows": split.n_test, "seconds": seconds, "predict_seconds": own, "first_seconds": whole[0]}
    samples = cfg["protocol"]["latent_samples" if model.latent else "test_samples"]
    return facts | {"samples": samples, "draws": cfg["protocol"]["draws"]}


def table(found: Sequence[dict]) -> Table:
    lines = [
        [
            one["model"],
            f"{one['samples']:,}",
            f"{one['draws']:,}",
            f"{one['rows'] / one['predict_seconds']:,.0f}",
            f"{one['rows'] / one['seconds']:,.0f}",
            f"{1 - one['predict_seconds'] / one['seconds']:.0%}",
            f"{one['first_seconds']:.1f}",
        ]
        for one in found
    ]
    header = ["model", "samples", "draws", "rows/s predict", "rows/s in all", "metrics' share", "first s"]
    return Table("Test rows per second of prediction and of the whole evaluation", header, lines)
