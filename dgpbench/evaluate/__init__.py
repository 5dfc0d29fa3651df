"""From predictions to metrics: numpy and scipy only, no knowledge of models."""
