"""What a package holds is loaded when it is first used, so that importing it is quick."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

__all__ = ["listing", "loading"]


def loading(package: str, homes: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package, which loads its modules.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping of str to str, optional
        Other names that it has, and the modules where these are.
    """
    homes = homes or {}

    def load(name: str) -> Any:
        if name in homes:
            value = getattr(importlib.import_module(homes[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        if name in _modules(package):
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


def listing(package: str) -> Callable[[], list[str]]:
    """Return the ``__dir__`` of a package: its public names and modules, and what all have."""
    def names() -> list[str]:
        module = sys.modules[package]
        usual = [name for name in vars(module) if name.startswith("__")]
        return sorted({*usual, *module.__all__, *_modules(package)})

    return names


@cache
def _modules(package: str) -> frozenset[str]:
    found = pkgutil.iter_modules(sys.modules[package].__path__)
    return frozenset(module.name for module in found if not module.name.startswith("_"))
