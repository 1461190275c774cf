"""The exception tree: everything that netsim raises on purpose is a `NetsimError`.

What it only warns of is a `NetsimWarning`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from netsim.text import shortened, visible

__all__ = [
    "AllocationError",
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
]


class _Shown(Exception):
    """Whose message can be shown: what is not printable is escaped, and no more than a screen.

    Its attributes hold what was given.
    """

    def __init__(self, *said: object) -> None:
        super().__init__(*(shortened(visible(each, lines=True)) if isinstance(each, str) else each
                           for each in said))


class NetsimError(_Shown):
    """Base of every error that netsim raises on purpose.

    Messages are of at most 2,000 characters, without control characters but for line ends.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # By message and attributes: a subclass's __init__ takes other arguments, and errors
        # travel between processes.
        return _restore, (type(self), str(self), self.__dict__)


def _restore(kind: type[NetsimError], message: str, state: dict[str, Any]) -> NetsimError:
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


class InputError(NetsimError, ValueError):
    """A network, a workload or an argument that cannot be simulated."""


class UnitError(InputError):
    """A quantity such as ``"10Gbps"`` that cannot be read or is out of range."""


class UnknownNameError(InputError, LookupError):
    """A policy, pattern, format or option that does not exist.

    Parameters
    ----------
    kind : str
        What was looked up, such as ``"allocator"``.
    name : str
        The name that was not found.
    choices : iterable of str
        The names that exist; they are listed in the message.
    """

    def __init__(self, kind: str, name: object, choices: Iterable[str]) -> None:
        self.kind, self.name, self.choices = kind, name, sorted(choices)
        near = difflib.get_close_matches(str(name), self.choices, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        listed = ", ".join(self.choices) or "none"
        super().__init__(f"unknown {kind} {name!r}{hint}; choose from: {listed}")


class _Placed(_Shown):
    """A message on a file, and on a line of it.

    Parameters
    ----------
    message : str
        What is wrong, with the offending value, or what was found and done about it.
    path : path-like, optional
        The file.
    line : int, optional
        The line, counted from 1.
    """

    def __init__(
        self, message: str, path: str | Path | None = None, line: int | None = None
    ) -> None:
        self.message, self.path, self.line = message, path, line
        where = "" if path is None else f"{path}:{line}: " if line else f"{path}: "
        super().__init__(where + message)


class TraceError(_Placed, InputError):
    """A trace or instance file that is wrong: ``TraceError(message, path, line)``."""


class SpecError(InputError):
    """An experiment file or a keyword of it that is wrong.

    Parameters
    ----------
    problems : iterable of str
        All problems found, each beginning with its key path.
    path : path-like, optional
        The file.
    """

    def __init__(self, problems: Iterable[str], path: str | Path | None = None) -> None:
        self.problems, self.path = list(problems), path
        where = "" if path is None else f"{path}: "
        if len(self.problems) == 1:
            super().__init__(where + self.problems[0])
        else:
            listed = "\n".join(f"  - {problem}" for problem in self.problems)
            super().__init__(f"{where}{len(self.problems)} problems:\n{listed}")


class NotRecordedError(InputError, AttributeError):
    """A table of a result that its run did not record, or could not; says how to have it.

    Parameters
    ----------
    problem : str
        What is not there.
    remedy : str
        What to do about it, in Python.
    setting : str
        The same on the command line.

    Attributes
    ----------
    command_line : str
        The message as the command line says it.
    """

    def __init__(self, problem: str, remedy: str, setting: str) -> None:
        self.command_line = f"{problem}; {setting}"
        super().__init__(f"{problem}; {remedy}")


class AllocationError(NetsimError):
    """An allocator returned rates that the network cannot carry; names the allocator."""


class StalledError(NetsimError):
    """Coflows are pending, nothing moves, and nothing will happen any more."""


class MissingExtraError(NetsimError, ImportError):
    """An optional dependency is not installed; the message says how to install it.

    Parameters
    ----------
    package : str
        The package that is missing.
    extra : str
        The extra of ``coflow-netsim`` that brings it.
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed; install it with: pip install 'coflow-netsim[{extra}]'"
        )


class OutputError(NetsimError, OSError):
    """A result that cannot be written."""


class FetchError(NetsimError, OSError):
    """A public trace that cannot be had from its source, or is not what it was there."""


class DaskError(NetsimError, ConnectionError):
    """A Dask cluster that has gone in the midst of a sweep; says how far the sweep was."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run: a `KeyboardInterrupt` that says how far the run was."""


def interruption_of(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the Ctrl-C that an error is, or comes of; None if it does not.

    One that meets compiled code, or the compiler, may come out as a `SystemError` or another.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


class NetsimWarning(_Placed, UserWarning):
    """Something that is not an error, but that the user should know: the base of all warnings.

    As for `TraceError`, it is made of a message and perhaps a path and a line.
    """
