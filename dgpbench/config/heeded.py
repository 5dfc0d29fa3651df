"""Settings that a model has no use for, since it is fitted in its own way: refused where they are typed."""

from __future__ import annotations

from collections.abc import Sequence

from dgpbench.errors import UserError

SECTIONS = ("inference", "precision")  # a budget may be given: it is a limit, and theirs


def section_of(word: str) -> str:
    """The section, group or field of the top that a word name=value sets."""
    return word.partition("=")[0].lstrip("+").split(".")[0]


def check_tuned(model: dict, names: Sequence[str]) -> None:
    """UserError if a setting that is to be chosen makes no difference to the model."""
    idle = (*unheeded(model), *(("budget",) if model.get("closed_form") else ()))
    for name in names:
        if section_of(name) in idle:
            raise UserError(
                f"{name} cannot be tuned: it makes no difference to model={model['name']}; give settings of "
                "the model, such as those of `dgpbench run --cfg`"
            )


def unheeded(model: dict) -> tuple[str, ...]:
    """Sections of the config that make no difference to a model."""
    return SECTIONS if model.get("closed_form") or model.get("own_training") else ()


def check_heeded(model: dict, words: Sequence[str]) -> None:
    """UserError if one of `words` sets what the model does not heed."""
    for word in words:
        if section_of(word) in unheeded(model):
            how = f"by {model['trained_by']}" if model.get("trained_by") else "in closed form"
            raise UserError(
                f"model={model['name']} is fitted {how} and has no use for {word}; leave it out, or take a "
                "model that has, such as model=sgp"
            )
