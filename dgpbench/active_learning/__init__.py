"""Active learning: a model asks for labels one row at a time, where it is least certain.

`criteria` says which row is next, `loop` fits and asks, `curve_file` keeps what was found, `curves` puts many
of them into one table and picture, `study` runs all that the words of a sweep name.
"""
