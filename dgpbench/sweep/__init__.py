"""Sweeps: plan units, run them on cores, SLURM or Ray, and know the state of each from files alone."""
