"""Mean absolute error as a metric: `dgpbench compare --config-dir examples/plugins --metric mae ...`."""

import numpy as np

from dgpbench.evaluate.metric_table import metric


@metric(
    "test_mae",
    "Test mean absolute error",
    both_units=True,  # also test_mae_std, in standardised units
    better="lower",
    ratio=True,
    tasks=("regression", "counts"),
    span=(0.0, np.inf),
    short="mean absolute error",
)
def mean_absolute_error(y, mean):
    """Mean |y - predicted mean| over test rows and outputs."""
    return np.abs(y - mean).mean()
