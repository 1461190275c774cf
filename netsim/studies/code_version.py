"""The version of the code that results depend on: a part of the key of a stored run.

Syntax trees count, without docstrings: an edit of a comment, of a docstring or of the layout leaves
stored runs valid, and so does any edit of a part that no result depends on, such as the plots. A
run's key covers the code of only those policies that the run can use.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import re
import sys
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from netsim._version import __version__
from netsim.base.files import atomic_write, cache_folder, read_bytes, read_text
from netsim.base.plugins import modules_of_plugin, parse_named
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud, EdgeWorkload
from netsim.network import Topology
from netsim.workload import Workload

# --- modules that a run can depend on ------------------------------------------------------

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


# --- versions ------------------------------------------------------------------------------

#: The parts of netsim that results depend on: folders and modules, by path within the package.
#: `tests/studies/test_code_version.py` holds this list against what a run imports.
RESULT_PARTS = (
    "_version.py", "text.py", "errors.py", "base", "ties.py", "collectives", "models", "workload",
    "operations.py", "llm", "network", "fabric", "allocators", "traces", "jobs", "predictors",
    "cluster", "placements", "engine", "edge", "schedulers", "results", "simulation",
    "experiment_file", "studies/run.py", "studies/tasks.py")

#: TOML files with numbers that results depend on.
RESULT_DATA = ("models/catalogue.toml", "models/gpus.toml", "llm/catalogue.toml",
               "network/profiles.toml")

#: The package.
_NETSIM = Path(__file__).parents[1]

#: A class or a function by name.
_PLACE = re.compile(r"[\w.]+:[\w.]+")

#: Packages that are not the user's own; what a script defines in ``__main__`` is sent whole.
_NOT_OWN = ("netsim", "numpy", "pandas", "__main__")

#: Types that hold nothing but data.
_DATA = Topology | Cluster | EdgeCloud | EdgeWorkload


def code_version(*modules: str) -> str:
    """Identify the code of netsim that results depend on, and that of user-defined modules."""
    return _version(_modules(), modules)


def version_of_run(settings: object, *modules: str) -> str:
    """Identify the code that a run with some settings can depend on; see `modules_of`.

    If there are user-defined modules, all policies of netsim count, as the user's code may build on
    each.
    """
    every = _modules()
    if not modules:
        found = list(_within(settings))
        counted = modules_of((each for each in found if isinstance(each, str)),
                             (each for each in found if isinstance(each, type)), every)
        every = {path: module for path, module in every.items() if path in counted}
    return _version(every, modules)


def _version(every: Mapping[str, Module], own: Iterable[str]) -> str:
    digests = {path: module.digest for path, module in every.items()}
    return " ".join([__version__, _digest_of(digests, _NETSIM),
                     *map(digest_of_source, _sources_of(own))])


def digest_of_files(*modules: str) -> str:
    """Hash the files that `code_version` depends on, byte by byte.

    If the files are equal, so are the versions of the code. Nothing is parsed, which would take
    long.
    """
    digest = hashlib.sha256(_digest_of_netsim_files())
    for source in _sources_of(modules):
        digest.update(hashlib.sha256(source).digest())
    return digest.hexdigest()[:16]


def _sources_of(modules: Iterable[str]) -> Iterator[bytes]:
    """Yield the contents of the files of loaded modules."""
    for module in modules:
        yield read_bytes(Path(str(sys.modules[module].__file__)))


def own_modules(values: object) -> tuple[str, ...]:
    """List the user-defined modules, sorted, whose classes and functions occur in some values.

    Strings such as ``"module:Class"`` count, as do names of plug-ins that have been loaded, options
    of policies, and patterns of jobs. ``__main__`` is left out, as its classes are sent by value.
    """
    found: set[str] = set()
    for value in _within(values):
        if not isinstance(value, str):
            if "<locals>" not in value.__qualname__:
                found.add(str(value.__module__))
        elif (plugins := modules_of_plugin(parse_named(value)["name"])):
            found |= plugins
        elif ":" in value and _PLACE.fullmatch(parse_named(value)["name"]):
            found.add(value.partition(":")[0])
    return tuple(sorted(filter(_is_own, found)))


def _within(values: object) -> Iterator[Any]:
    """Yield the texts, classes and functions that occur in some values; of objects, their class."""
    seen: dict[int, object] = {}
    waiting = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
            if ":" in value:
                waiting += [part for key, part in parse_named(value).items() if key != "name"]
        elif id(value) not in seen and not isinstance(value, Path):
            seen[id(value)] = value
            yield value if isinstance(value, type | types.FunctionType) else type(value)
            waiting += _parts(value)


def _parts(value: Any) -> Iterable[Any]:
    """The parts of a value that may be code or instances of user-defined classes."""
    if isinstance(value, Workload):
        return {id(job.pattern): job.pattern for job in value}.values()
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, type | types.FunctionType | types.ModuleType | _DATA):
        return ()
    slots = (getattr(value, name, None) for name in getattr(type(value), "__slots__", ()))
    return [*getattr(value, "__dict__", {}).values(), *slots]


def _is_own(module: str) -> bool:
    top = module.partition(".")[0]
    return (top not in _NOT_OWN and top not in sys.stdlib_module_names
            and getattr(sys.modules.get(module), "__file__", None) is not None)


@functools.cache
def _modules() -> dict[str, Module]:
    """The modules that results depend on, from a file if equal ones were parsed before.

    Parsing takes seconds; hashing the bytes takes a hundredth of that.
    """
    python = ".".join(map(str, sys.version_info[:2]))
    known = cache_folder() / f"code-{_digest_of_netsim_files().hex()[:16]}-{python}.json"
    with suppress(OSError, ValueError, TypeError, AttributeError):
        return {path: Module(*parts) for path, parts in json.loads(read_text(known)).items()}
    every = modules_in(_NETSIM)
    with suppress(OSError), atomic_write(known, folders=True) as temporary:
        temporary.write_text(json.dumps(every), encoding="utf-8")
    return every


def modules_in(folder: Path) -> dict[str, Module]:
    """Parse the modules of a copy of netsim that results depend on, by path within it."""
    return {path.relative_to(folder).as_posix(): parse_module(source, digest_of_source(source))
            for path in result_modules(folder) for source in [read_bytes(path)]}


@functools.cache
def _digest_of_netsim_files() -> bytes:
    digest = hashlib.sha256()
    for path in (*result_modules(_NETSIM), *(_NETSIM / name for name in RESULT_DATA)):
        digest.update(f"{path.relative_to(_NETSIM).as_posix()} ".encode())
        digest.update(hashlib.sha256(read_bytes(path)).digest())
    return digest.digest()


def _digest_of(digests: Mapping[str, str], folder: Path) -> str:
    """Hash the digests of modules by path, and the numbers in a package."""
    digest = hashlib.sha256()
    for path, each in digests.items():
        digest.update(f"{path} {each}\n".encode())
    for name in RESULT_DATA:
        if (folder / name).is_file():
            values = tomllib.loads(read_bytes(folder / name).decode())
            digest.update(f"{name} {values!r}\n".encode())
    return digest.hexdigest()[:16]


def result_modules(folder: Path) -> Iterator[Path]:
    """Yield the modules of a copy of netsim that results depend on, in a fixed order."""
    for part in RESULT_PARTS:
        path = folder / part
        if path.is_dir():
            yield from sorted(path.rglob("*.py"))
        elif path.is_file():
            yield path


def digest_of_source(source: bytes) -> str:
    """Hash the syntax tree of a module, without docstrings and line numbers.

    Files that cannot be parsed, such as compiled extensions, are hashed byte by byte.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # ValueError: it has null bytes
        return hashlib.sha256(source).hexdigest()[:16]
    _drop_docstrings(tree)
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


def _drop_docstrings(block: ast.AST) -> None:
    """Remove bare strings from all blocks of statements within a statement or a module."""
    # Statements only, for `ast.walk` goes through every expression and takes four times as long.
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(block, name, None)
        if isinstance(inner, list):  # the body of a lambda is an expression
            setattr(block, name, [each for each in inner if not _is_text(each)])
            for each in inner:
                _drop_docstrings(each)


def _is_text(statement: ast.AST) -> bool:
    """Whether a statement is a bare string, such as a docstring."""
    return (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str))
