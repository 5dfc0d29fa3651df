"""Sequences aligned by monotone warps (figure D1 of Ustyuzhaninov et al.), of a run with its parameters."""

from __future__ import annotations

from dataclasses import replace

from dgpbench.errors import UserError
from dgpbench.report.figures.picture import Nothing, Picture


def picture(spec, units) -> Picture:
    from dgpbench.api.fitted import layers_of
    from dgpbench.report.runs.layers import layer_picture

    reason = ""
    for unit in units:
        try:
            return replace(layer_picture(unit, layers_of), name=spec.name, title=spec.title)
        except (Nothing, UserError) as error:
            reason = reason or str(error)
    raise Nothing(f"{reason}; records of results/reference come without parameters, so run it here")
