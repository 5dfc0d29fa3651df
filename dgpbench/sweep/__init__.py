"""Sweeps: plan units, run them on cores, SLURM or Ray, and know the state of each from files alone.

`planner` makes a `plan` of units. `launch`, `slurm` and `ray` run them in a `pool` of processes (`process`,
`child`) under a `lease` each. `state` reads records and leases.

The package can be called: `dgpbench.sweep("model=sgp,dgp2")` is the sweep of dgpbench.api.runs.
"""

import sys
from types import ModuleType


class _Callable(ModuleType):
    def __call__(self, *overrides: str, **options):
        import dgpbench

        return dgpbench.run_sweep(*overrides, **options)


sys.modules[__name__].__class__ = _Callable
