"""dgpbench's own step, from the shipped config through the trainer that `dgpbench run` uses."""

from __future__ import annotations

from dgpbench.config import compose
from dgpbench.engine.batches import Batches
from dgpbench.engine.platform import set_threads
from dgpbench.engine.trainer import StepSpec, Trainer
from dgpbench.inference.optimise import rates_from_config
from dgpbench.models import init
from dgpbench.models.gp import JITTER
from dgpbench.models.parameters import unconstrain
from dgpbench.perf.cases import Case

__all__ = ["build", "set_threads"]


def build(case: Case, precision: str):
    layers = ",".join(["gp"] * case.depth)
    cfg = compose(
        [
            "model=sgp",
            f"model.layers=[{layers}]",
            f"model.width={case.width}",
            f"model.num_inducing={case.num_inducing}",
            f"inference.batch={case.batch}",
            f"precision={precision}",
        ]
    )
    X, Y, _ = case.data("float64")
    model, values, fixed, _ = init.build(cfg, X, 1, seed=0)
    raw = unconstrain(values)
    spec = StepSpec(
        model=model,
        shapes=tuple((name, v.shape) for name, v in raw.items()),
        fixed=frozenset(fixed),
        batch=case.batch,
        full_batch=False,
        precision=precision,
        chunk_rows=cfg["engine"]["chunk_rows"],
        xla=cfg["engine"]["xla"] in ("auto", True),
    )
    trainer = Trainer(spec)
    jitter = cfg["model"]["jitter"] or JITTER[precision]
    rates = rates_from_config(cfg["inference"])
    trainer.reset(raw, rates, seed=0, num_data=len(X), jitter=jitter, data=(X, Y))
    batches, done = Batches(len(X), case.batch, seed=0), 0

    def run(steps: int) -> float:
        nonlocal done
        report = trainer.run(done, batches.rows(done, steps))
        done += steps
        return -report["bound_last"]

    return run
