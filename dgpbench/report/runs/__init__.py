"""Pictures of single runs: which runs words name, their panels, the layers of a deep GP."""
