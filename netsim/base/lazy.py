"""Modules, names and libraries that are loaded on first use, so that imports are fast."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Package(ModuleType):
    """A package that offers a function under the name of its module, not the module."""

    def __setattr__(self, name: str, value: Any) -> None:
        offers = vars(self).get("__all__", ())
        if not (isinstance(value, ModuleType) and name in offers):  # as Python does on an import
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return importlib.import_module, (self.__name__,)  # as of other modules, by name


def loading(package: str, homes: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Make a ``__getattr__`` that imports the modules of a package when they are needed.

    `package` is its ``__name__``; `homes` maps the classes and functions that it offers to the
    modules that define them.
    """
    homes = homes or {}
    sys.modules[package].__class__ = _Package

    def load(name: str) -> Any:
        if name in homes:
            value = getattr(importlib.import_module(homes[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        if name in _modules(package):
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


def listing(package: str, modules: Iterable[str] | None = None) -> Callable[[], list[str]]:
    """Make a ``__dir__``: a package's public and special names, and `modules`, by default all."""
    def names() -> list[str]:
        module = sys.modules[package]
        usual = [name for name in vars(module) if name.startswith("__")]
        return sorted({*usual, *module.__all__,
                       *(_modules(package) if modules is None else modules)})

    return names


@cache
def _modules(package: str) -> frozenset[str]:
    found = pkgutil.iter_modules(sys.modules[package].__path__)
    return frozenset(module.name for module in found if not module.name.startswith("_"))


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
