"""Generated datasets, most with a known conditional density p(y | x), so that error can be measured.

`synthetic` draws rows and stores them, `letters` is the word DGP as a density, `on_demand` computes any row
when it is asked for and stores none.
"""
