"""Whether two checkouts give the same numbers to the last bit, over full runs of every family.

    python tests/neutral/compare_bits.py digests > before.json     (PYTHONPATH names one checkout)
    python tests/neutral/compare_bits.py digests > after.json      (... and the other)
    python tests/neutral/compare_bits.py compare before.json after.json

Two digests of each run on one thread: one of every trained parameter and the last bound, one of all metrics.
Both must be made on one machine with the same TensorFlow. `digests NAME ...` runs some of the cases only.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

ARM = ["dataset=arm8", "dataset.n=900", "model.num_inducing=20"]
TOY = ["dataset=bimodal", "dataset.n=400", "model.num_inducing=15", "protocol.latent_samples=200"]
CASES = {
    "sgp_dsvi_float64": [*ARM, "model=sgp", "inference=dsvi", "precision=float64"],
    "dgp2_fast_mixed": [*ARM, "model=dgp2", "inference=fast", "inference.batch=300", "precision=mixed"],
    "dgp3_dsvi_minibatch": [*ARM, "model=dgp3", "inference=dsvi", "inference.batch=256", "precision=float64"],
    "dgp2_dsvi_float32": [*ARM, "model=dgp2", "inference=dsvi", "inference.batch=300", "precision=float32"],
    "dgp2_samples": [*ARM, "model=dgp2", "inference=fast", "inference.samples=3", "inference.batch=200"],
    "dgp2_ngd_all_alternate": [*ARM, "model=dgp2", "inference=ngd_all", "inference.natgrad.alternate=true"],
    "sgp_natural_sqrt": [
        *(*ARM, "model=sgp", "inference=ngd_adam", "inference.natgrad.parameterisation=natural_sqrt"),
    ],
    "sgp_gd": [*ARM, "model=sgp", "inference=gd"],
    "sgp_linesearch_lbfgs": [
        *(*ARM, "model=sgp", "inference=ngd_adam", "inference.hyperparameters=fixed", "precision=float64"),
        *("inference.natgrad.step=linesearch", "inference.natgrad.direction=lbfgs", "budget.steps=4"),
        "inference.natgrad.parameterisation=meanvar_sqrt",
    ],
    "sgp_linesearch_natural": [
        *(*ARM, "model=sgp", "inference=ngd_adam", "inference.hyperparameters=fixed", "precision=float64"),
        *("inference.natgrad.step=linesearch", "budget.steps=4"),
    ],
    "lv_gp_vi": [*TOY, "model=lv_gp", "inference=vi", "precision=float64"],
    "lv_gp_gp_iwvi_mixed": [*TOY, "model=lv_gp_gp", "inference=iwvi", "inference.batch=128"],
    "lv_gp_iwvi_dreg": [*TOY, "model=lv_gp", "inference=iwvi", "inference.dreg=true", "precision=float64"],
    "lv_gp_free": [*TOY, "model=lv_gp", "inference=vi", "inference.latent_q=free", "inference.batch=100"],
    "cde_optimal": [*TOY, "model=cde", "inference=optimal", "inference.batch=100"],
    "projection": [
        *(*ARM, "model=cde", "inference=vi", "model.layers=[linear,lv,gp]", "model.projection_dim=3"),
        "protocol.latent_samples=200",
    ],
    "cvae": ["dataset=bimodal", "dataset.n=400", "model=cvae_50", "protocol.latent_samples=200"],
    "mdn": ["dataset=bimodal", "dataset.n=400", "model=mdn"],
    "classes_dgp2": ["classes", "model=dgp2", "model.num_inducing=15", "inference=fast"],
    "classes_softmax": [
        "classes",
        "model=sgp",
        "model.num_inducing=15",
        "likelihood=softmax",
        "inference=fast",
    ],
}


def class_file(folder: Path) -> Path:
    """Three classes of points in the plane."""
    rng = np.random.RandomState(0)
    labels = rng.randint(3, size=300)
    X = rng.randn(300, 2) + 1.5 * np.stack([np.cos(2 * labels), np.sin(2 * labels)], 1)
    file = folder / "classes.csv"
    np.savetxt(file, np.hstack([X, labels[:, None]]), delimiter=",", fmt="%.17g")
    return file


def digest(words: list[str], folder: Path) -> dict:
    """The digest of one run, and its bound and log-likelihood for a reader."""
    from dgpbench.config import compose
    from dgpbench.experiment import run_unit
    from dgpbench.store import read

    data = ["dataset=csv", f"dataset.path={class_file(folder)}", "dataset.task=multiclass"]
    words = [w for w in words if w != "classes"] + (data if "classes" in words else [])
    settings = ["threads=1", "device=cpu", "protocol.draws=50", "protocol.test_samples=10"]
    if not any(w.startswith("budget.") for w in words):
        settings.append("budget.steps=25")
    cfg = compose([*words, *settings, f"paths.results={folder / 'results'}", "paths.mirror=null"])
    unit, _ = run_unit(cfg)
    record = unit.record
    if record["status"] != "done":
        return {"digest": record["reason"]}
    total = hashlib.sha256()
    for name, value in sorted(read.parameters(unit).items()):
        total.update(name.encode() + np.ascontiguousarray(value).tobytes())
    bounds = [line[2] for line in record["training"]["trace"][-1:]]
    total.update(json.dumps(bounds).encode())
    metrics = {k: v for k, v in record["metrics"].items() if "seconds" not in k}
    scores = hashlib.sha256(json.dumps(metrics, sort_keys=True).encode())
    digests = {"digest": total.hexdigest()[:16], "scores": scores.hexdigest()[:16], "key": record["key"]}
    return digests | {"bound": bounds, "metrics": metrics}


def main() -> int:
    if sys.argv[1] == "compare":
        before, after = (json.loads(Path(file).read_text()) for file in sys.argv[2:4])
        wrong = 0
        for what in ("digest", "scores", "key"):
            differ = [name for name in before if before[name][what] != after.get(name, {}).get(what)]
            label = {"digest": "parameters and bounds", "scores": "metrics", "key": "keys"}[what]
            print(
                f"{label}: {len(before) - len(differ)} of {len(before)} runs equal to the last bit", *differ
            )
            wrong += len(differ)
        pairs = [
            (name, k, v, after[name]["metrics"].get(k))
            for name in before
            for k, v in before[name]["metrics"].items()
        ]
        gaps = [
            (abs(v - w) / (1 + abs(v)), name, k) for name, k, v, w in pairs if v is not None and w is not None
        ]
        print("largest relative change of a metric:", *max(gaps))
        return 1 if wrong else 0
    out = {}
    for name in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            out[name] = digest(CASES[name], Path(folder))
        print(name, out[name]["digest"], file=sys.stderr)
    print(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
