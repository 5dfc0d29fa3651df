"""A model computes on its own device in prediction too: with two logical CPUs in place of a CPU and a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
