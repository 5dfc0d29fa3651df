"""Engine: the compiled training loop, its checkpoints and its guard against NaN."""
