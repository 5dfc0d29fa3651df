"""Gaussian processes: kernels, layers, likelihoods, and their numbers. Knows nothing of data, training or files."""
