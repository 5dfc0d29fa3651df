"""dgpbench's own step, from the shipped config through the trainer that `dgpbench run` uses."""

from __future__ import annotations

from benchmarks.cases import MIXED_GPS, Case
from dgpbench.config import compose
from dgpbench.config.classes import create_method
from dgpbench.engine.batches import Batches
from dgpbench.engine.platform import choose_device, set_threads, tf
from dgpbench.engine.spec import step_spec
from dgpbench.engine.trainer import Trainer
from dgpbench.gp import start
from dgpbench.gp.parameters import unconstrain
from dgpbench.models.gp import JITTER

__all__ = ["build", "set_threads"]


def build(case: Case, precision: str, inference: str = "dsvi", *, device: str = "cpu"):
    layers = ",".join(["lv"] * bool(case.latent) + ["gp"] * case.depth)
    kind = ["model=lv_gp_gp", f"model.latent_dim={case.latent}", f"model.inner_gps={MIXED_GPS}"]
    kind.append(f"inference={'iwvi' if case.importance else 'vi'}")
    kind += [f"inference.importance_samples={case.importance}"] if case.importance else []
    cfg = compose(
        [
            *(
                kind if case.latent else ["model=sgp", f"inference={inference}"]
            ),  # the peers train by Adam alone
            f"model.layers=[{layers}]",
            f"model.width={case.width}",
            f"model.num_inducing={case.num_inducing}",
            f"inference.batch={case.batch}",
            f"precision={precision}",
            *(["model.per_output=all", "model.mean=linear_trained"] if case.own else []),
        ]
    )
    X, Y, _ = case.data("float64")
    model, values, fixed, _ = start.build(cfg, X, Y, seed=0)
    method = create_method(cfg)
    bound = method.bound(model)
    update, raw = method.update(bound), unconstrain(bound.initial(values), bound.constraints())
    fixed = fixed & raw.keys()
    threads = set_threads(tf.config.threading.get_inter_op_parallelism_threads() or None, bool(case.latent))
    place = choose_device(device)
    trainer = Trainer(step_spec(cfg, bound, update, raw, fixed, case.batch, False, threads, place))
    jitter = cfg["model"]["jitter"] or JITTER[precision]
    trainer.reset(raw, method.rates(), seed=0, num_data=len(X), jitter=jitter, data=(X, Y))
    batches, done = Batches(len(X), case.batch, seed=0), 0

    def run(steps: int) -> float:
        nonlocal done
        report = trainer.run(done, batches.rows(done, steps))
        done += steps
        return -report["bound_last"]

    return run
