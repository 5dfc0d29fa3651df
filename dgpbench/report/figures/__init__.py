"""Pictures of tables and of runs: how each kind is painted, with the numbers behind it."""
