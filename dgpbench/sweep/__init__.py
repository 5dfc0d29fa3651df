"""Sweeps: plan units, run them on cores, SLURM or Ray, and know the state of each from files alone.

`planner` makes a `plan` of units; `launchers` run them in a `pool` of processes (`process`, `child`) under a
`lease` each; `state` reads records and leases; `unfinished` records units that could not do so themselves.
"""
