"""Records on disk: one folder per unit, written atomically, read without heavy imports."""
