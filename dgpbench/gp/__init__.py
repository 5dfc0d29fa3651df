"""Gaussian processes: kernels, layers, likelihoods, in numbers. Knows nothing of data, training or files."""
