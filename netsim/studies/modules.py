"""Which modules of netsim a run can depend on: all but the policies that it cannot use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

#: The parts of netsim with policies, of which a run uses few.
POLICY_PARTS = ("allocators", "schedulers", "placements", "predictors")

#: The place of a policy in a registry, and the name of a policy in a text with options.
_POLICY, _NAME = re.compile(r"netsim\.([\w.]+):\w+"), re.compile(r"[\w-]+")


class Module(NamedTuple):
    """The imports of a module, and the names in it."""

    digest: str
    imports: list[str]  #: by path within the package; imports within functions count
    texts: list[str]  #: all texts without spaces, which may name a policy
    homes: dict[str, str]  #: of a registry: the module in which each policy is defined
    #: Of a registry: the texts that an alias or a preset stands for.
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
                if isinstance(value, ast.Constant) and (place := _POLICY.fullmatch(
                        str(value.value))):
                    homes[name] = _path(f"netsim.{place[1]}")
                else:
                    stands_for[name] = list(_texts(value))
    return Module(digest, sorted(imports), sorted(texts), homes, stands_for if homes else {})


def _path(module: str) -> str:
    """The path of a module within the package."""
    return f"{module.removeprefix('netsim.').replace('.', '/')}.py"


def _entries(node: ast.Dict) -> Iterator[tuple[str, ast.expr]]:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, value


def _texts(node: ast.AST) -> Iterator[str]:
    return (each.value for each in ast.walk(node)
            if isinstance(each, ast.Constant) and isinstance(each.value, str))


def homes_of(every: Mapping[str, Module]) -> dict[str, set[str]]:
    """The modules of policies, by each of their names, and by aliases and presets."""
    registries = [module for path, module in every.items()
                  if module.homes and path.partition("/")[0] in POLICY_PARTS]
    homes: dict[str, set[str]] = {}
    for module in registries:
        for name, home in module.homes.items():  # policies of two kinds may share a name
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
    """Find the modules that a run can depend on, by path within the package.

    Modules that define no policy count. A module that defines one counts if a text of the run's
    settings names the policy, such as ``"aalo:queues=3"``, if it defines one of the classes in the
    settings or a base of one, or if a module that counts imports it or names its policy in a text,
    as that of a default.
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
