"""Registries of plug-ins, which a name or a mapping with options can select.

Other packages add plug-ins by entry points, a group for each kind, such as ``netsim.allocators``.
These are read only when a name is looked up that netsim does not have, or when names are listed.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from netsim.base.units import parse_value
from netsim.base.values import check_options, plain
from netsim.errors import InputError, NetsimError, NetsimWarning, UnknownNameError, did_you_mean

#: The environment variable that refuses code everywhere, as `without_code` does in a context.
NO_PLUGINS = "NETSIM_NO_PLUGINS"

#: Whether ``"module:attribute"`` is refused, as it is for files from untrusted sources.
_refuses_code: ContextVar[bool] = ContextVar("refuses_code", default=False)

#: The modules of the plug-ins of packages that this process has loaded, by group and name.
_loaded: dict[tuple[str | None, str], frozenset[str]] = {}

#: What a plug-in may be called, so that options can follow its name.
_NAME = re.compile(r"[\w.-]+")


class Installed(NamedTuple):
    """A plug-in of an installed package."""

    place: str  #: ``"module:attribute"``; empty if several packages have this name
    package: str  #: name and version; of all packages, if there are several


def parse_named(text: str) -> dict[str, Any]:
    """Parse a name with options on one line into ``{"name": ..., option: ...}``.

    >>> parse_named("parrot:work_conservation=none:theta_max=0.6")
    {'name': 'parrot', 'work_conservation': 'none', 'theta_max': 0.6}
    >>> parse_named("package.module:Class")
    {'name': 'package.module:Class'}
    """
    parts = text.split(":")
    options = [part.partition("=") for part in parts if "=" in part]
    name = ":".join(part for part in parts if "=" not in part)
    return {"name": name} | {key.strip(): parse_value(value) for key, _, value in options}


def parse_policy(given: str | Mapping[str, Any], what: str) -> tuple[str, dict[str, Any]]:
    """Split a policy, given as a name or as a mapping with a name, into name and options."""
    table = parse_named(given) if isinstance(given, str) else given
    if not (isinstance(table, Mapping) and isinstance(table.get("name"), str)):
        raise InputError(f"{what} must be a name, or a mapping with a 'name' and options, "
                         f"not {given!r}", what)
    return table["name"], {key: value for key, value in table.items() if key != "name"}


def labelled(table: Mapping[str, Any]) -> str:
    """Format a name and its options as a label, such as ``ff (order=by_size)``."""
    options = ", ".join(f"{name}={value}" for name, value in table.items() if name != "name")
    return f"{table['name']} ({options})" if options else str(table["name"])


@contextmanager
def without_code() -> Iterator[None]:
    """Refuse code named as ``"module:attribute"``, and of other packages, in this context."""
    token = _refuses_code.set(True)
    try:
        yield
    finally:
        _refuses_code.reset(token)


def refuse_code(kind: str, name: str) -> None:
    """Refuse ``"module:attribute"`` within `without_code`, for a name that is resolved later."""
    if ":" in name and _refuses():
        raise InputError(f"{kind} {name!r} names code to load, which is not allowed without "
                         "plug-ins")


def _refuses() -> bool:
    return _refuses_code.get() or os.environ.get(NO_PLUGINS, "") not in ("", "0")


def modules_of_plugin(name: str) -> frozenset[str]:
    """The modules of the plug-ins of packages of this name that have been loaded."""
    return frozenset().union(*(found for (_, known), found in _loaded.items() if known == name))


@lru_cache(maxsize=64)
def _installed(group: str, taken: tuple[str, ...], path: tuple[str, ...]
               ) -> Mapping[str, Installed]:
    """Read the plug-ins of a group; those of names that are `taken` are refused with a warning.

    Nothing is imported. `path` is that of Python, as it may grow.
    """
    from importlib import metadata

    found: dict[str, Installed] = {}
    packages: set[str] = set()
    for each in metadata.distributions(path=list(path)):
        try:
            points = [point for point in each.entry_points if point.group == group]
        except Exception as error:  # of a damaged file
            warnings.warn(NetsimWarning(f"package {each.name}: its entry points cannot be read: "
                                        f"{_describe(error)}"), stacklevel=4)
            continue
        if not points or each.name.lower() in packages:
            continue  # of several copies, Python imports the first
        packages.add(each.name.lower())
        package = f"{each.name} {each.version}"
        for point in points:
            if (why := _misnamed(point.name, taken)) is not None:
                warnings.warn(NetsimWarning(f"package {package} has a plug-in {point.name!r} in "
                                            f"{group}, which is refused: {why}"), stacklevel=4)
            elif (other := found.get(point.name)) is not None:
                found[point.name] = Installed("", f"{other.package} and {package}")
            else:
                found[point.name] = Installed(f"{point.module}:{point.attr or ''}", package)
    return MappingProxyType(dict(sorted(found.items())))


def _misnamed(name: str, taken: tuple[str, ...]) -> str | None:
    """Say what is wrong with the name of a plug-in; None if nothing is."""
    if name in taken:
        return "netsim has one of this name; \"module:Class\" still selects it"
    if not _NAME.fullmatch(name):
        return "names consist of letters, digits, '-', '_' and '.'"
    return None


class Registry:
    """A registry of the plug-ins of one kind, which makes objects from names and options.

    Iterating yields the registered names, without aliases and presets. All methods that take a name
    also accept ``"module:attribute"`` of a user-defined class or function, and the names of
    `installed` plug-ins, which are those of the entry points ``netsim.<group>``.

    `places` has the ``"module:attribute"`` of each name, imported when it is first needed, or the
    callable itself, whose docstring begins with the one-line help. `presets` are mappings with the
    ``name`` of a plug-in and options. `kind` is for messages about names, and `noun` for those
    about options. `accepts` is the base class of plug-ins, or a function that tells whether an
    object is valid; `refusal` ends the message about one that is not.
    """

    def __init__(self, kind: str, places: Mapping[str, Any], *,
                 aliases: Mapping[str, str] | None = None,
                 presets: Mapping[str, Mapping[str, Any]] | None = None, noun: str | None = None,
                 accepts: type | Callable[[Any], bool] | None = None, refusal: str = "",
                 group: str | None = None) -> None:
        self.group = group
        self.kind, self.noun, self.places = kind, noun or kind, dict(places)
        self.aliases = dict(aliases or {})
        self.presets = {name: dict(table) for name, table in (presets or {}).items()}
        self._accepts, self._refusal = accepts, refusal

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.places

    def __repr__(self) -> str:
        return f"<Registry of {self.kind}: {', '.join(self)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """All names: registered ones, aliases and presets."""
        return (*self.places, *self.aliases, *self.presets)

    @property
    def installed(self) -> Mapping[str, Installed]:
        """The plug-ins of other packages, by name; none where code is refused."""
        return {} if _refuses() else self._packages()

    def _packages(self) -> Mapping[str, Installed]:
        return {} if self.group is None else _installed(
            f"netsim.{self.group}", self.names, tuple(sys.path))

    def resolve(self, name: str) -> Any:
        """Look up the class or function behind a name, or import ``"module:attribute"``."""
        if not isinstance(name, str):
            raise UnknownNameError(self.kind, name, self.names)
        known = self.presets.get(name, {}).get("name", name)
        known = self.aliases.get(known, known)
        place = self.places.get(known, known)
        if not isinstance(place, str):
            return place
        if known in self.places:
            return self._load(place, f"{self.kind} {name!r}")
        if ":" in known:
            if not all(known.partition(":")[::2]):
                raise UnknownNameError(self.kind, name, self.names, self._own)
            refuse_code(self.kind, name)
            return self._load(known, f"{self.kind} {name!r}")
        return self._of_package(name)

    @property
    def _own(self) -> str:
        """How users name their own code, for a message; empty where they cannot."""
        if self.group is None or _refuses():
            return ""
        return f"your own is named 'module:{'function' if self.group == 'formats' else 'Class'}'"

    def _of_package(self, name: str) -> Any:
        """Load a plug-in of another package."""
        known = self._packages()
        if name not in known:
            raise UnknownNameError(self.kind, name, (*self.names, *self.installed), self._own)
        place, package = known[name]
        what = f"{self.kind} {name!r} of package {package}"
        if _refuses():
            raise InputError(f"{what} is code to load, which is not allowed without plug-ins")
        if not place:
            raise InputError(f"{what} is not one: choose by \"module:Class\"")
        loaded = self._load(place, what)
        homes = {place.partition(":")[0], getattr(loaded, "__module__", None) or ""}
        _loaded[self.group, name] = frozenset(homes & sys.modules.keys())
        return loaded

    @staticmethod
    def _load(place: str, what: str) -> Any:
        """Import ``"module:attribute"``; messages begin with `what`."""
        module, _, attribute = place.partition(":")
        try:
            loaded: Any = importlib.import_module(module)
        except (Exception, SystemExit) as error:  # a user's module may raise anything
            raise InputError(f"{what} cannot be loaded: {_describe(error)}") from error
        for name in attribute.split("."):
            if not hasattr(loaded, name):
                near = did_you_mean(name, [each for each in dir(loaded) if each[:1] != "_"], 1)
                raise InputError(f"{what} cannot be loaded: the module {module!r} has no attribute "
                                 f"{attribute!r}{near}")
            loaded = getattr(loaded, name)
        return loaded

    def instantiate(self, given: Any, **offers: Any) -> Any:
        """Make a plug-in from a user's argument; `offers` are defaults for the options that it has.

        `given` is a name, with options as in ``"aalo:queues=3"``; ``{"name": ..., option: ...}``,
        whose options override those of a preset; a class; or an instance, which is copied, so that
        runs do not share its state.
        """
        if isinstance(given, str | Mapping):
            return self.make(*parse_policy(given, self.noun), **offers)
        if isinstance(given, type):
            return self._make(given, given.__name__, {}, offers)
        return copied(self._checked(given, given), self.noun)

    def make(self, name: str, options: Mapping[str, Any], /, **offers: Any) -> Any:
        """Make a plug-in from its name and a mapping of options; see `instantiate`."""
        return self._make(self.resolve(name), name, self._preset(name) | dict(options), offers)

    def _make(self, target: Any, name: str, options: dict[str, Any], offers: dict[str, Any]) -> Any:
        if isinstance(self._accepts, type) and not (
                isinstance(target, type) and issubclass(target, self._accepts)):
            raise self._refused(name)
        if offers and callable(target):
            taken = inspect.signature(target).parameters
            options = {key: value for key, value in offers.items() if key in taken} | options
        return self._checked(instantiate(target, options, f"{self.noun} {name!r}"), name)

    def takes(self, made: Any) -> bool:
        """Whether an object is one of this kind."""
        accepts = self._accepts
        return accepts is None or (isinstance(made, accepts) if isinstance(accepts, type)
                                   else accepts(made))

    def _checked(self, made: Any, name: object) -> Any:
        """Return an object if it is accepted; otherwise raise an error that names it."""
        if self.takes(made):
            return made
        raise self._refused(name)

    def _refused(self, name: object) -> InputError:
        return InputError(f"{name!r} {self._refusal}")

    def options(self, name: str) -> dict[str, Any]:
        """Return the options of a plug-in or a preset with their defaults."""
        parameters = inspect.signature(self.resolve(name)).parameters
        return {option: each.default for option, each in parameters.items()
                if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)} | self._preset(name)

    def help(self, name: str) -> str:
        """Describe a plug-in or a preset in one line."""
        if name in self.presets:
            options = [f"{key} = {value}" for key, value in self._preset(name).items()]
            return f"preset: {', '.join([self.presets[name]['name'], *options])}"
        return (inspect.getdoc(self.resolve(name)) or "").partition("\n")[0]

    def _preset(self, name: str) -> dict[str, Any]:
        """Return a copy of the options of a preset; empty for other names."""
        return {key: value for key, value in self.presets.get(name, {}).items() if key != "name"}

    def to_dict(self, thing: Any) -> dict[str, Any]:
        """Describe an instance as ``{"name": ..., option: ...}``; a class has only its name."""
        kind = thing if isinstance(thing, type) else type(thing)
        target = f"{kind.__module__}:{kind.__qualname__}"
        name = next((name for name, place in self.places.items() if place in (target, kind)),
                    target)
        if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
            return {"name": name}
        return {"name": name} | {field.name: getattr(thing, field.name)
                                 for field in dataclasses.fields(thing) if field.init}


def instantiate(make: Callable[..., Any], options: Mapping[str, Any], owner: str) -> Any:
    """Call ``make(**options)``, and convert exceptions to `InputError`."""
    try:
        check_options(make, options, owner)
        return make(**plain(dict(options)))
    except NetsimError:
        raise
    except (TypeError, ValueError) as error:
        given = f" of {dict(options)!r}" if options else ""
        raise InputError(f"{owner} cannot be made{given}: {error}") from error
    except (Exception, SystemExit) as error:  # a user's class may raise anything
        raise InputError(f"{owner} cannot be made: {_describe(error)}") from error


def copied(policy: Any, what: str) -> Any:
    """Copy a policy deeply, so that runs do not share its state; messages begin with `what`."""
    try:
        return copy.deepcopy(policy)
    except Exception as error:  # a user's __deepcopy__ may raise anything
        raise InputError(f"{what}: {policy!r} cannot be copied for a run: {error}; keep locks, "
                         "open files and the like out of it, or give it a __deepcopy__"
                         ) from error


def _describe(error: BaseException) -> str:
    """Return the message of an error, with the place where it was raised unless it has one."""
    if isinstance(error, ImportError | SyntaxError):
        return str(error)
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
