"""Active learning: a model asks for labels one row at a time, where it is least certain.

`selection` fits, scores and chooses the next row; `learning_curves` stores curves and makes tables and plots
of them; `curve_study` runs all combinations of settings.
"""
