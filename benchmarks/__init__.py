"""Speed beside the peers: every system in its own process, all of them measured in turns in one run.

cases (what is computed) x systems (who computes it) -> measure -> perf.json -> ratios -> table, plot,
summary.
"""
