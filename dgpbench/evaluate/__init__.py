"""From predictions to metrics: numpy and scipy only, no knowledge of models."""

from dgpbench.evaluate.evaluation import Evaluation, Progress, evaluate
from dgpbench.evaluate.predictive import Predictive

__all__ = ["Evaluation", "Predictive", "Progress", "evaluate"]
