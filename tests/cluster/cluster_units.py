"""Eight units: four of a model that fails on split 1, four of a sparse GP that takes some seconds."""

from sweep_tools import MODELS, TINY

STEPS = 60_000  # long enough to be caught in the middle
UNITS = [
    "--config-dir",
    str(MODELS),
    "model=stub_fail,small_sgp",
    "split=0,1,2,3",
    "engine.xla=false",
    "inference.batch=20",
    f"budget.steps={STEPS}",
    "engine.checkpoint_seconds=2",
    *TINY,
]
