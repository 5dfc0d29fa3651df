"""Records on disk: one folder per unit, written atomically, read without heavy imports.

`schema` says what a record is, `write` stores one, `scan` and `read` find them again, `migrate` reads older
ones, `reference` packs many into one file, `filters` and `summary` choose and average.
"""
