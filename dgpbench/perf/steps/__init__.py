"""The training step of each system: `set_threads(n) -> n`, `build(case, precision) -> run(steps) -> loss`."""
