"""Libraries that take long to import, loaded when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Late(ModuleType):
    """A module that is imported when one of its names is looked up."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what tools look for in every module
            raise AttributeError(name)
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return importlib.import_module, (self.__name__,)


if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    import simpy
else:
    nx, pd, simpy = _Late("networkx"), _Late("pandas"), _Late("simpy")
