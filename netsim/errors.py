"""Exceptions and warnings: netsim's errors are a `NetsimError`, its warnings a `NetsimWarning`."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from netsim.text import said, shortened, visible

__all__ = [
    "AllocationError",
    "Cancelled",
    "DaskError",
    "FetchError",
    "InputError",
    "Interrupted",
    "MissingExtraError",
    "NetsimError",
    "NetsimWarning",
    "NotRecordedError",
    "OutputError",
    "SpecError",
    "StalledError",
    "TraceError",
    "UnitError",
    "UnknownNameError",
    "at_place",
    "causes_of",
    "described",
    "did_you_mean",
    "key_of",
    "not_one_of",
    "unknown_name",
]

#: With how many names one that does not exist is compared; with more it would take seconds.
_MOST_COMPARED = 50_000


class _Printable(Exception):
    """Base of exceptions whose messages are safe to print: escaped, and limited in length.

    Attributes of subclasses keep the original text.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(shortened(visible(each, lines=True)) if isinstance(each, str) else each
                           for each in args))


class NetsimError(_Printable):
    """Base class of all errors that netsim raises deliberately.

    Messages have at most 2,000 characters, and no control characters except line ends.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # By message and attributes, as errors are sent between processes and the __init__ of
        # subclasses has other parameters.
        return _restore, (type(self), str(self), self.__dict__)


def _restore(kind: type[NetsimError], message: str, state: dict[str, Any]) -> NetsimError:
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


class InputError(NetsimError, ValueError):
    """A network, a workload or an argument that cannot be simulated.

    Parameters
    ----------
    message : str
    key : str
        The argument or field with the wrong value, where one is to blame.

    Attributes
    ----------
    others : tuple of InputError
        The errors of other fields of the same object.
    """

    others: tuple[InputError, ...] = ()

    def __init__(self, message: str, key: str = "") -> None:
        self.key = key
        super().__init__(message)


def key_of(what: str) -> str:
    """Return the argument that a name in a message ends with: ``"count"`` of "points: count"."""
    return what.rpartition(": ")[2]


class UnitError(InputError):
    """A quantity such as ``"10Gbps"`` that cannot be read or is out of range."""


def did_you_mean(name: object, choices: Sequence[str], most: int = 3) -> str:
    """A hint at up to `most` similar names, for the end of a message; empty if there are none.

    >>> did_you_mean("hots-1", ["host-0", "host-1", "leaf-0"], 2)
    " (did you mean 'host-1' or 'host-0'?)"
    """
    near = difflib.get_close_matches(str(name), choices[:_MOST_COMPARED], n=most)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def not_one_of(what: str, value: object, choices: Iterable[str]) -> str:
    """The message about a value that is none of the choices, with the nearest of them."""
    known = list(choices)
    return f"{what} must be one of {', '.join(known)}, not {said(value)}" + did_you_mean(
        value, known, 1)


def unknown_name(kind: str, name: object, choices: Iterable[str]) -> str:
    """The message about a name that does not exist, with the nearest one and all choices."""
    known = list(choices)
    return (f"unknown {kind} {said(name)}{did_you_mean(name, known, 1)}; "
            f"choose from: {', '.join(known) or 'none'}")


class UnknownNameError(InputError, LookupError):
    """A policy, pattern, format or option that does not exist.

    Parameters
    ----------
    kind : str
        The kind of object that was looked up, such as ``"allocator"``.
    name : str
        The name that was not found.
    choices : iterable of str
        The existing names, which the message lists.
    besides : str
        What else may be given, for the end of the message.
    key : str
        As for `InputError`.
    """

    def __init__(self, kind: str, name: object, choices: Iterable[str], besides: str = "",
                 key: str = "") -> None:
        self.kind, self.name, self.choices = kind, name, sorted(choices)
        super().__init__(unknown_name(kind, name, self.choices)
                         + (f"; {besides}" if besides else ""), key)


def _place(path: str | Path | None, line: int | None = None) -> str:
    """The beginning of a message about a line of a file, or about the file."""
    return "" if path is None else f"{path}:{line}: " if line else f"{path}: "


class _Located(_Printable):
    """Base of exceptions whose message may begin with a file and a line, counted from 1."""

    def __init__(
        self, message: str, path: str | Path | None = None, line: int | None = None
    ) -> None:
        self.message, self.path, self.line = message, path, line
        super().__init__(_place(path, line) + message)


class TraceError(_Located, InputError):
    """An invalid trace or instance file: ``TraceError(message, path, line)``."""

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None, *,
                 key: str = "") -> None:
        super().__init__(message, path, line)
        self.key = key


class SpecError(InputError):
    """An invalid experiment file, or an invalid key of it.

    Parameters
    ----------
    problems : iterable of str
        All problems found; each begins with the path of its key.
    path : path-like, optional
        The file.
    lines : iterable of int or None, optional
        The line of each problem in the file, counted from 1; None for one that has no line.
    """

    def __init__(self, problems: Iterable[str], path: str | Path | None = None,
                 lines: Iterable[int | None] = ()) -> None:
        self.problems, self.path = list(problems), path
        self.lines = list(lines) or [None] * len(self.problems)
        if len(self.problems) == 1:
            super().__init__(_place(path, self.lines[0]) + self.problems[0])
        else:
            listed = "\n".join(f"  - {'' if line is None else f'line {line}: '}{problem}"
                               for line, problem in zip(self.lines, self.problems, strict=True))
            super().__init__(f"{_place(path)}{len(self.problems)} problems:\n{listed}")


class NotRecordedError(InputError, AttributeError):
    """A table of a result that was not, or could not be, recorded; the message gives a remedy.

    Parameters
    ----------
    problem : str
        Description of the missing table.
    remedy : str
        How to record it, in Python.
    setting : str
        How to record it, on the command line.

    Attributes
    ----------
    command_line : str
        The message for the command line.
    """

    def __init__(self, problem: str, remedy: str, setting: str) -> None:
        self.command_line = f"{problem}; {setting}"
        super().__init__(f"{problem}; {remedy}")


class AllocationError(NetsimError):
    """An allocator returned an infeasible allocation; the message names the allocator."""


class Cancelled(NetsimError):
    """The failure of a coflow that was cancelled, or that lost one of its hosts.

    Parameters
    ----------
    message : str
    left : float
        Bytes that were not sent.
    """

    def __init__(self, message: str, left: float) -> None:
        super().__init__(message, left)  # SimPy copies it from these for each waiting process
        self.left = left

    def __str__(self) -> str:
        return str(self.args[0])


class StalledError(NetsimError):
    """Coflows are pending, but none sends and no further event is scheduled."""


class MissingExtraError(NetsimError, ImportError):
    """An optional dependency is not installed; the message says how to install it.

    Parameters
    ----------
    package : str
        The missing package.
    extra : str
        The extra of ``coflow-netsim`` that installs it.
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed; install it with: pip install 'coflow-netsim[{extra}]'"
        )


class OutputError(NetsimError, OSError):
    """A result that cannot be written."""


class FetchError(NetsimError, OSError):
    """A public trace cannot be downloaded, or is not the expected file."""


class DaskError(NetsimError, ConnectionError):
    """A Dask cluster was lost during a sweep; the message gives the sweep's progress."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run: a `KeyboardInterrupt` whose message gives the run's progress."""


def interruption_of(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the `KeyboardInterrupt` that an error is or was caused by; None if there is none.

    Ctrl-C in compiled code, or in the compiler, may surface as a `SystemError` or another error.
    """
    return next((each for each in causes_of(error) if isinstance(each, KeyboardInterrupt)), None)


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what caused it, each once: causes may go round in a circle."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def at_place(error: NetsimError, place: str) -> NetsimError:
    """Copy an error, with a place at the beginning of its message, such as ``"events[2]"``."""
    return _restore(type(error), f"{place}: {error}", error.__dict__)


def closed_by(what: str, error: BaseException, at_s: float, way_out: str) -> str:
    """The message of what cannot go on after an error in the middle of an instant."""
    return (f"the {what} is closed: it was left in the middle of an instant, at {at_s:g} s, by "
            f"{described(error)}\n{way_out}")


def described(error: BaseException) -> str:
    """The class and the message of an error, even if its `str` fails."""
    lines = traceback.format_exception_only(error)
    return "".join(lines).strip().removeprefix("netsim.errors.")


class NetsimWarning(_Located, UserWarning):
    """Base class of all warnings of netsim.

    Like `TraceError`, it takes a message, and optionally a path and a line.
    """
