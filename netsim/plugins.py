"""Plug-ins by name: one `Registry` for each kind of thing that a string or a mapping can name."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from netsim.checks import check_options
from netsim.errors import InputError, NetsimError, UnknownNameError
from netsim.plain import plain_numbers
from netsim.units import parse_value

__all__ = ["Registry", "copied", "instantiate", "labelled", "parse_named", "parse_policy",
           "refuse_code", "without_code"]

#: Whether ``"module:attribute"`` is refused, as it is for files that nobody vouches for.
_refuses_code: ContextVar[bool] = ContextVar("refuses_code", default=False)


def parse_named(text: str) -> dict[str, Any]:
    """Parse a name with options on one line into ``{"name": ..., option: ...}``.

    Examples
    --------
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
    """Split a policy, given as a name or as a mapping with one, into its name and its options.

    Raises
    ------
    InputError
        If it is neither.
    """
    table = parse_named(given) if isinstance(given, str) else given
    if not (isinstance(table, Mapping) and isinstance(table.get("name"), str)):
        raise InputError(f"{what} must be a name, or a mapping with a 'name' and options, "
                         f"not {given!r}")
    return table["name"], {key: value for key, value in table.items() if key != "name"}


def labelled(table: Mapping[str, Any]) -> str:
    """Format a name and its options as a label.

    Examples
    --------
    >>> labelled({"name": "ff", "order": "by_size"})
    'ff (order=by_size)'
    """
    options = ", ".join(f"{name}={value}" for name, value in table.items() if name != "name")
    return f"{table['name']} ({options})" if options else str(table["name"])


@contextmanager
def without_code() -> Iterator[None]:
    """Refuse to load code that is named as ``"module:attribute"``; what netsim registers is not."""
    token = _refuses_code.set(True)
    try:
        yield
    finally:
        _refuses_code.reset(token)


def refuse_code(kind: str, name: str) -> None:
    """Refuse a name that would load code, where that is not allowed.

    For names that are resolved later, outside of `without_code`.

    Raises
    ------
    InputError
        If the name has the form ``"module:attribute"`` within `without_code`.
    """
    if ":" in name and _refuses_code.get():
        raise InputError(f"{kind} {name!r} names code to load, which is not allowed without "
                         "plug-ins")


class Registry:
    """The things of one kind that have names, and how a name, a mapping or a class becomes one.

    Iterating yields the registered names, without aliases and presets. Wherever a name is taken,
    so is ``"module:attribute"`` of a class or a function of the user's own.

    Parameters
    ----------
    kind : str
        What such a thing is called in messages about names.
    places : mapping of str to str
        Name to ``"module:attribute"``, which is imported when it is first needed. The first line
        of the docstring there is the one-line help. A callable may stand in place of the string.
    aliases : mapping of str to str, optional
        Other names for registered ones.
    presets : mapping of str to mapping, optional
        Name to a table with the ``name`` of what is registered, and options.
    noun : str, optional
        What such a thing is called in messages about its options; `kind` if not given.
    accepts : type or callable, optional
        What a thing must be: a class from which it must derive, or a function that says of an
        object whether it is one. Anything is accepted if not given.
    refusal : str
        What is said of an object that is not accepted, after its name.
    """

    def __init__(self, kind: str, places: Mapping[str, Any], *,
                 aliases: Mapping[str, str] | None = None,
                 presets: Mapping[str, Mapping[str, Any]] | None = None, noun: str | None = None,
                 accepts: type | Callable[[Any], bool] | None = None, refusal: str = "") -> None:
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
        """Every name that can be given: the registered ones, aliases and presets."""
        return (*self.places, *self.aliases, *self.presets)

    def resolve(self, name: str) -> Any:
        """Look up the class or function behind a name, or import ``"module:attribute"``.

        Raises
        ------
        UnknownNameError
            If it is neither; the choices are listed.
        InputError
            If it cannot be loaded.
        """
        if not isinstance(name, str):
            raise UnknownNameError(self.kind, name, self.names)
        known = self.presets.get(name, {}).get("name", name)
        known = self.aliases.get(known, known)
        place = self.places.get(known, known)
        if not isinstance(place, str):
            return place
        module, _, attribute = place.partition(":")
        if not (module and attribute):
            raise UnknownNameError(self.kind, name, self.names)
        if known not in self.places:
            refuse_code(self.kind, name)
        try:
            loaded = importlib.import_module(module)
        except Exception as error:  # whatever a module of the user's own raises
            raise InputError(f"{self.kind} {name!r} cannot be loaded: {_said(error)}") from error
        if not hasattr(loaded, attribute):
            raise InputError(f"{self.kind} {name!r} cannot be loaded: the module {module!r} has no "
                             f"attribute {attribute!r}")
        return getattr(loaded, attribute)

    def instantiate(self, given: Any, **offers: Any) -> Any:
        """Make a thing of what a user gives.

        Parameters
        ----------
        given : str, mapping, class or object
            A name, with options as in ``"aalo:queues=3"``; ``{"name": ..., option: ...}``, whose
            options go over those of a preset; a class; or an instance, which is copied so that
            its state serves one run only.
        **offers
            Options for classes that have them, where none are given.

        Raises
        ------
        UnknownNameError
            If the name or an option does not exist; the choices are listed.
        InputError
            If it is not of this kind, or an option has a value that is not allowed.
        """
        if isinstance(given, str | Mapping):
            return self.make(*parse_policy(given, self.noun), **offers)
        if isinstance(given, type):
            return self._make(given, given.__name__, {}, offers)
        return copied(self._checked(given, given), self.noun)

    def make(self, name: str, options: Mapping[str, Any], /, **offers: Any) -> Any:
        """Make a thing of its name and a mapping of options; see `instantiate`."""
        return self._make(self.resolve(name), name, self._preset(name) | dict(options), offers)

    def _make(self, target: Any, name: str, options: dict[str, Any], offers: dict[str, Any]) -> Any:
        if isinstance(self._accepts, type) and not (
                isinstance(target, type) and issubclass(target, self._accepts)):
            raise self._refused(name)
        if offers and callable(target):
            taken = inspect.signature(target).parameters
            options = {key: value for key, value in offers.items() if key in taken} | options
        return self._checked(instantiate(target, options, f"{self.noun} {name!r}"), name)

    def _checked(self, made: Any, said: object) -> Any:
        accepts = self._accepts
        if accepts is None or (isinstance(made, accepts) if isinstance(accepts, type)
                               else accepts(made)):
            return made
        raise self._refused(said)

    def _refused(self, said: object) -> InputError:
        return InputError(f"{said!r} {self._refusal}")

    def options(self, name: str) -> dict[str, Any]:
        """List the options of a registered thing or a preset, with their defaults."""
        parameters = inspect.signature(self.resolve(name)).parameters
        return {option: each.default for option, each in parameters.items()
                if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)} | self._preset(name)

    def help(self, name: str) -> str:
        """Describe a registered thing or a preset in one line."""
        if name in self.presets:
            options = [f"{key} = {value}" for key, value in self._preset(name).items()]
            return f"preset: {', '.join([self.presets[name]['name'], *options])}"
        return (inspect.getdoc(self.resolve(name)) or "").partition("\n")[0]

    def _preset(self, name: str) -> dict[str, Any]:
        """Copy the options of a preset; of other names there are none."""
        return {key: value for key, value in self.presets.get(name, {}).items() if key != "name"}

    def to_dict(self, thing: Any) -> dict[str, Any]:
        """Describe an instance as ``{"name": ..., option: ...}``, for results and labels."""
        kind = type(thing)
        target = f"{kind.__module__}:{kind.__qualname__}"
        name = next((name for name, place in self.places.items() if place in (target, kind)),
                    target)
        if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
            return {"name": name}
        return {"name": name} | {field.name: getattr(thing, field.name)
                                 for field in dataclasses.fields(thing) if field.init}


@plain_numbers
def instantiate(make: Callable[..., Any], options: Mapping[str, Any], owner: str) -> Any:
    """Call ``make(**options)``, and turn what goes wrong into an `InputError`.

    Raises
    ------
    UnknownNameError
        If it has no such option.
    InputError
        If an option has a value that is not allowed, or it cannot be made.
    """
    try:
        check_options(make, options, owner)
        return make(**options)
    except NetsimError:
        raise
    except (TypeError, ValueError) as error:
        given = f" of {dict(options)!r}" if options else ""
        raise InputError(f"{owner} cannot be made{given}: {error}") from error
    except Exception as error:  # likewise
        raise InputError(f"{owner} cannot be made: {_said(error)}") from error


def copied(policy: Any, what: str) -> Any:
    """Return a copy of a policy, so that its state serves one run only.

    Raises
    ------
    InputError
        If it cannot be copied, as what holds a lock or an open file cannot; beginning with `what`.
    """
    try:
        return copy.deepcopy(policy)
    except Exception as error:  # whatever it raises that is asked to copy itself
        raise InputError(f"{what}: {policy!r} cannot be copied, which each run does: {error}; keep "
                         "locks, open files and the like out of it, or give it a __deepcopy__"
                         ) from error


def _said(error: Exception) -> str:
    """Return what an error says, and where it was raised unless it says so itself."""
    if isinstance(error, ImportError | SyntaxError):
        return str(error)
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
