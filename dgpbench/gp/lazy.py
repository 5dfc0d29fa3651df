"""Modules that are imported at first use: a method's file can be read for its fields without TensorFlow."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Lazy(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def lazy(name: str) -> Any:
    """The module of that name, imported now if it is already loaded, else when an attribute is asked for."""
    return sys.modules.get(name) or _Lazy(name)
