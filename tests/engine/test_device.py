"""Prediction runs on the model's own device (two logical CPUs act as a CPU and a GPU), and a step reads no
variable that TensorFlow would place on the host."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dgpbench.config import compose
from dgpbench.config.tree import options
from dgpbench.engine.platform import tf
from dgpbench.engine.spec import step_spec
from dgpbench.engine.trainer import Trainer
from dgpbench.gp.parameters import unconstrain
from dgpbench.models.gp import GPModel

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import numpy as np
from dgpbench.engine.platform import tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from dgpbench.config import compose
from dgpbench.gp import start
from dgpbench.models import prediction
from dgpbench.models.base import create

random = np.random.RandomState(0)
X, Y = random.randn(30, 3), random.randn(30, 1)
seen = set()
real = prediction._in_blocks
def spy(compiled, bound, S, prepared, *rest):
    seen.update(t.device[-5:] for t in tf.nest.flatten(prepared))
    seen.add(tf.constant(0.0).device[-5:])
    return real(compiled, bound, S, prepared, *rest)
prediction._in_blocks = spy
for words in (["model=sgp"], ["model=dgp2"]):
    cfg = compose([*words, "model.num_inducing=5", "dataset=boston", "threads=1"])
    _, values, _, _ = start.build(cfg, X, Y, 0, 30)
    model = create(cfg)
    model.device = "/CPU:1"
    model.load_parameters(values | {"jitter": 1e-6})
    model.predict(X, 3, 0)
print(sorted(seen))
"""


@pytest.mark.slow
def test_prediction_and_parameters_are_on_the_models_device():
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["['CPU:1']"], done.stdout + done.stderr


MODELS = {name: ["model=lv_gp"] for name in ("vi", "iwvi", "optimal")} | {
    "analytic": ["model=dgp2", "model.inner_noise=0.01"],
    "collapsed": ["model=gplvm"],
    "sgpmc": ["model=sgp"],
}
CASES = {name: ["model=dgp2", f"inference={name}"] for name in options("inference") if name not in MODELS}
CASES |= {name: [*words, f"inference={name}"] for name, words in MODELS.items()} | {
    "linesearch": [
        *("model=sgp", "inference=ngd_adam", "inference.hyperparameters=fixed"),
        "inference.natgrad.step=linesearch",
    ],
}


class Rows:
    """As much of a split as the start of a model needs."""

    X_train, Y_train = np.random.RandomState(0).randn(30, 2), np.zeros((30, 1))
    n_train, dim, task, n_classes, outputs, bin_size = 30, 2, "regression", 0, 1, 1.0


@pytest.mark.parametrize("name", CASES)
def test_no_variable_of_a_step_is_int32(name):
    """On a GPU TensorFlow keeps int32 variables on the host, which a fully compiled step cannot read."""
    words = [*CASES[name], "model.num_inducing=5", "precision=float64", "threads=1", "engine.xla=false"]
    model = GPModel(cfg := compose(words))
    model.start(Rows(), 0)
    created = []

    def record(make, **kwargs):
        created.append(make(**kwargs))
        return created[-1]

    _, values, fixed, _ = model._initial
    raw = unconstrain(values, model.bound.constraints())
    spec = step_spec(cfg, model.bound, model.method.update(model.bound), raw, fixed, 30, True, 1, "/CPU:0")
    with tf.variable_creator_scope(record):
        trainer = Trainer(spec)
        trainer.reset(raw, model.method.rates(), seed=3, num_data=30, data=None)
    assert trainer.oracle.seed.numpy() == 3 and len(created) > len(raw)
    assert {v.name for v in created if v.dtype == tf.int32} == set()
