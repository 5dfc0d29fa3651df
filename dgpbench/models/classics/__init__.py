"""The classical single-layer GPs, by GPflow's own classes and L-BFGS: exact, VFE, FITC and full KL.

`model=gp` is none of them: it is the sparse GP of the IWVI paper (models/gp.py).
"""
