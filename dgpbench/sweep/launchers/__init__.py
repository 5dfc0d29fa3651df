"""Launchers: where the units of a plan run. Each module has one function, run_local, run_slurm or run_ray.

A launcher only starts pools and watches; what a unit has become stands in its record and its lease.
"""
