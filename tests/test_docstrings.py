"""Docstrings of private names have no sections; those of public ones name real parameters."""

import ast
import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path

import netsim
from netsim.base.plugins import Registry
from tests.offenders import assert_none

PACKAGE = Path(netsim.__file__).parent
REFERENCE = PACKAGE.parent / "docs" / "api"

#: An entry of the reference, and its options.
_ENTRY = re.compile(r"^\.\. auto(?:class|function):: (\S+)\n((?: +:.*\n)*)", re.MULTILINE)

#: The heading of any section of numpydoc's.
_HEADING = re.compile(r"^([A-Z][\w ]*)\n-{3,}$", re.MULTILINE)

_PARAMETERS = re.compile(r"^Parameters\n-+\n(.*?)(?:\n\n\w+\n-+\n|\Z)", re.DOTALL | re.MULTILINE)


@cache
def modules():
    """All modules of netsim, by name."""
    return {found.name: importlib.import_module(found.name)
            for found in pkgutil.walk_packages(netsim.__path__, "netsim.")
            if found.name != "netsim.__main__"}


# --- who has sections ------------------------------------------------------------------------


def written(thing):
    """The function that stands in the source, of what decorators have made of it."""
    if inspect.isclass(thing):
        return thing
    for name in ("py_func", "fget", "func", "__func__", "__wrapped__"):
        thing = getattr(thing, name, thing)
    return thing


def in_the_reference():
    """Each class and function of the reference, with the members that stand below it."""
    for page in sorted(REFERENCE.glob("*.md")):
        for place, options in _ENTRY.findall(page.read_text(encoding="utf-8")):
            module, _, name = place.rpartition(".")
            thing = getattr(importlib.import_module(module), name)
            yield thing
            yield from members(thing, options)


def members(thing, options):
    """What the reference shows of a class: the public part, or the names after ``:members:``."""
    shown = re.search(r":members:(.*)", options)
    if not shown:
        return
    names = shown[1].replace(",", " ").split()
    inherited = ":inherited-members:" in options
    for each in thing.__mro__ if inherited else [thing]:
        if each.__module__.startswith("netsim."):
            yield from (member for name, member in vars(each).items()
                        if (name in names if names else not name.startswith("_")))


def in_registries():
    """What users choose by name; ``netsim list`` shows its options with their meaning."""
    registries = {id(value): value for module in modules().values()
                  for value in vars(module).values() if isinstance(value, Registry)}
    for registry in registries.values():
        yield from map(registry.resolve, registry)


def public():
    """The whole names of what is public."""
    things = map(written, [*in_the_reference(), *in_registries()])
    return {f"{thing.__module__}.{thing.__qualname__}" for thing in things
            if inspect.isclass(thing) or inspect.isfunction(thing)}


def tree_of(module):
    return ast.parse(Path(module.__file__).read_text(encoding="utf-8"))


def docstrings(node, name):
    """Yield the classes and functions below a node, by their whole names, with their docstrings."""
    for child in ast.iter_child_nodes(node):
        inside = name
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield f"{name}.{child.name}", ast.get_docstring(child) or ""
            local = "" if isinstance(child, ast.ClassDef) else ".<locals>"
            inside = f"{name}.{child.name}{local}"
        yield from docstrings(child, inside)


def test_private_names_have_no_sections():
    """A private name is told in a sentence; sections are for readers of the reference."""
    known = public()
    assert_none(f"{name}: {', '.join(headings)}" for module, loaded in modules().items()
                for name, text in docstrings(tree_of(loaded), module)
                if name not in known and (headings := _HEADING.findall(text)))


# --- which parameters they name --------------------------------------------------------------


def documented(thing):
    """The parameters that a numpydoc docstring names; those of its own, not inherited."""
    text = vars(thing)["__doc__"] if inspect.isclass(thing) else thing.__doc__
    section = _PARAMETERS.search(inspect.cleandoc(text or ""))
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


def test_parameters_are_those_of_the_signature():
    assert_none(f"{thing.__module__}.{thing.__qualname__} has no {name}"
                for module in modules().values() for thing in defined_in(module)
                for name in sorted(documented(thing))
                if name not in inspect.signature(thing).parameters)
