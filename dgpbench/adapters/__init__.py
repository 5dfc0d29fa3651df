"""Bridges to other packages; none of them is needed to use dgpbench."""
