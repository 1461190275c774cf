"""Docstrings name the parameters that there are."""

import importlib
import inspect
import pkgutil
import re

import pytest

import netsim

MODULES = sorted(found.name for found in pkgutil.walk_packages(netsim.__path__, "netsim.")
                 if found.name != "netsim.__main__")

_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?:\n\n\w+\n-+\n|\Z)", re.DOTALL | re.MULTILINE)


def documented(thing):
    """The parameters that a numpydoc docstring names; those of its own, not inherited."""
    text = vars(thing)["__doc__"] if inspect.isclass(thing) else thing.__doc__
    text = inspect.cleandoc(text or "")
    section = _SECTION.search(text)
    lines = section[1].splitlines() if section else []
    heads = [line.partition(" : ")[0] for line in lines if line and not line.startswith(" ")]
    return {name.strip("* ") for head in heads for name in head.split(",")}


def defined_in(module):
    """The classes and functions of a module, and the methods of those classes."""
    for thing in vars(module).values():
        thing = getattr(thing, "py_func", thing)  # of a compiled one
        if getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(thing):
            yield thing
            yield from filter(inspect.isfunction, vars(thing).values())
        elif inspect.isfunction(thing):
            yield thing


@pytest.mark.parametrize("name", MODULES)
def test_parameters_are_those_of_the_signature(name):
    for thing in defined_in(importlib.import_module(name)):
        if names := documented(thing):
            assert names <= set(inspect.signature(thing).parameters), thing.__qualname__
