"""TensorFlow's thread pools: inside operations and beside each other."""

import subprocess
import sys

import pytest

SCRIPT = """
from dgpbench.engine.platform import set_threads, tf
threads, inside = {threads}, {inside}
used = set_threads(threads, inside)
tf.constant(1.0) + 1.0
later = set_threads(threads + 1, inside)
print(tf.config.threading.get_intra_op_parallelism_threads(), used, later)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("threads", "inside", "pool"),
    [
        (2, True, 2),
        pytest.param(2, False, 1, marks=pytest.mark.long),
        (8, False, 8),
    ],  # many threads have not operations enough side by side
)
def test_pools(threads, inside, pool):
    """The number of threads stays what it was when TensorFlow has started."""
    script = SCRIPT.format(threads=threads, inside=inside)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(pool), str(threads), str(threads)]
