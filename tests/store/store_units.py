"""Small units to write, read and count."""

import hashlib

import numpy as np

from dgpbench.config.keys import complete
from dgpbench.store.record import build_record


def make_cfg(dataset="energy", model="dgp2", split=0, seed=0, num_inducing=100, protocol="clean"):
    cfg = {
        "experiment": None,
        "split": split,
        "seed": seed,
        "precision": "float64",
        "device": "cpu",
        "threads": 2,
        "paths": {"results": "results", "datasets": "datasets", "mirror": None},
        "dataset": {"name": dataset, "task": "regression"},
        "protocol": {"name": protocol, "splits": 20},
        "model": {"name": model, "num_inducing": num_inducing, "layers": ["gp", "gp"], "jitter": 1e-6},
        "inference": {"name": "dsvi", "batch": 10000},
        "budget": {"name": "default", "steps": 20000, "seconds": None},
        "launcher": {"name": "local"},
    }
    return complete(cfg)


def digest(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def make_record(cfg=None, status="done", metrics=None, **fields):
    cfg = cfg or make_cfg()
    model = cfg["model"]
    names = (cfg["dataset"]["name"], model["name"], model["num_inducing"], cfg["protocol"]["name"])
    return build_record(
        cfg,
        key=fields.pop("key", digest(*names, cfg["split"], cfg["seed"])),
        config_key=digest(*names),
        status=status,
        metrics={"test_loglik": -1.0, "test_rmse": 0.5} if metrics is None else metrics,
        data_hash=digest(cfg["dataset"]["name"]),
        wall_seconds=12.5,
        **fields,
    )


def make_companions(value=1.0, rows=50):
    predictions = {
        "row": np.arange(rows),
        "mean": np.full(rows, value),
        "q01": np.full(rows, value, np.float32),
    }
    draws = {"row": np.arange(3), "x": np.full((3, 4), value), "draws": np.full((3, 20), value, np.float32)}
    return {"predictions": predictions, "draws": draws, "params": {"layers.0.Z": np.full((5, 2), value)}}
