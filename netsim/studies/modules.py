"""Which modules of netsim a run can depend on: all but the policies that it cannot use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

__all__ = ["POLICY_PARTS", "Module", "homes_of", "modules_of", "parse_module"]

#: The parts of netsim with policies, of which a run uses few.
POLICY_PARTS = ("allocators", "schedulers", "placements", "predictors")

#: Where a registry says that a policy is defined, and a name of one in a text with options.
_PLACE, _NAME = re.compile(r"netsim\.([\w.]+):\w+"), re.compile(r"[\w-]+")


class Module(NamedTuple):
    """What a module imports and names.

    Attributes
    ----------
    digest : str
        See `netsim.studies.code_version.digest_of_source`.
    imports : list of str
        Modules that it imports, also within functions, by path within the package.
    texts : list of str
        All texts in it without spaces, which may name a policy.
    homes : dict of str to str
        Of a registry: the module in which each policy is defined.
    stands_for : dict of str to list of str
        Of a registry: other names, and those of presets, and texts in what they stand for.
    """

    digest: str
    imports: list[str]
    texts: list[str]
    homes: dict[str, str]
    stands_for: dict[str, list[str]]


def parse_module(source: bytes, digest: str) -> Module:
    """Parse the imports of a module, and the names in it."""
    imports, texts = set[str](), set[str]()
    homes: dict[str, str] = {}
    stands_for: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("netsim."):
            imports.update(_path(f"{node.module}.{alias.name}") for alias in node.names)
            imports.add(_path(str(node.module)))
        elif isinstance(node, ast.Import):
            imports.update(_path(alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant):
            texts.update(filter(_NAME.fullmatch, [str(node.value)]))
        elif isinstance(node, ast.Dict):
            for name, value in _entries(node):
                if isinstance(value, ast.Constant) and (place := _PLACE.fullmatch(
                        str(value.value))):
                    homes[name] = _path(f"netsim.{place[1]}")
                else:
                    stands_for[name] = list(_texts(value))
    return Module(digest, sorted(imports), sorted(texts), homes, stands_for if homes else {})


def _path(module: str) -> str:
    """Return the path of a module within the package."""
    return f"{module.removeprefix('netsim.').replace('.', '/')}.py"


def _entries(node: ast.Dict) -> Iterator[tuple[str, ast.expr]]:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, value


def _texts(node: ast.AST) -> Iterator[str]:
    return (each.value for each in ast.walk(node)
            if isinstance(each, ast.Constant) and isinstance(each.value, str))


def homes_of(every: Mapping[str, Module]) -> dict[str, set[str]]:
    """Return the modules of policies by each of their names, of others, and of presets."""
    registries = [module for path, module in every.items()
                  if module.homes and path.partition("/")[0] in POLICY_PARTS]
    homes: dict[str, set[str]] = {}
    for module in registries:
        for name, home in module.homes.items():  # policies of two kinds may have one name
            if home.partition("/")[0] in POLICY_PARTS:
                homes.setdefault(name, set()).add(home)
    for module in registries:
        for name, texts in module.stands_for.items():
            if name != "name":
                found = [module.homes[text] for text in texts if text in module.homes]
                homes.setdefault(name, set()).update(found)
    return {name: found for name, found in homes.items() if found}


def modules_of(texts: Iterable[str], classes: Iterable[type], every: Mapping[str, Module]
               ) -> set[str]:
    """Return the modules that a run can depend on, by path within the package.

    Modules that define no policy count. Those that define one count if a text of the run's settings
    names it, or an object in them is of it, or a module that counts imports it or has its name as
    a text, as the usual choice of something has.

    Parameters
    ----------
    texts : iterable of str
        Texts in the settings of the run, such as ``"aalo:queues=3"``.
    classes : iterable of type
        Classes in them, and of objects in them.
    every : mapping of str to Module
        All modules.
    """
    homes = homes_of(every)
    policies = set().union(*homes.values())
    named = {name for text in texts for name in _NAME.findall(text)}
    waiting = [*(every.keys() - policies), *(home for name in named & homes.keys()
                                             for home in homes[name]),
               *({_path(base.__module__) for each in classes for base in each.__mro__} & policies)]
    counted: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in counted or path not in every:
            continue
        counted.add(path)
        module = every[path]
        waiting += policies.intersection(module.imports)
        if not module.homes:  # a registry names all
            waiting += [home for text in module.texts if text in homes for home in homes[text]]
    return counted
