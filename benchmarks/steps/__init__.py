"""The training step of each system: `set_threads(n) -> n`, `build(case, precision,
device) -> run(steps) -> loss`; the loss on the host means that all its steps are done, on a GPU too."""
