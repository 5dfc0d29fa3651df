"""The user's own runs: comparisons of any models on any datasets, leaderboard, pages of single runs."""
