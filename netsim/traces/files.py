"""Files of traces: text, rows and JSON documents, read and checked, with the problems found.

Errors name the line, and in JSON the path; problems of a file are collected and raised together.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import reprlib
import shlex
from bisect import bisect
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from netsim.base.files import atomic_write, open_text
from netsim.base.files import read_text as text_of
from netsim.base.limits import most, raised_by
from netsim.base.units import parse_value
from netsim.base.values import as_name, as_number, as_path, is_number
from netsim.errors import InputError, NetsimError, TraceError, UnknownNameError
from netsim.workload import Flows, JobSpec, Stage

#: Largest number of names that a message lists.
_MOST_LISTED = 12


# --- problems ------------------------------------------------------------------------------
class Problem(NamedTuple):
    """One error in a file."""

    line: int | None  #: counted from 1; None if the message gives the place in another way
    message: str  #: with the invalid value and the allowed ones


class TraceProblemsError(TraceError):
    """The contents of a file are invalid.

    The message is that of the first problem; the attribute ``problems`` holds all of them.
    """

    def __init__(self, problems: Iterable[Problem], path: str | Path, key: str = "") -> None:
        self.problems = tuple(problems)
        line, message = self.problems[0]
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        super().__init__(message + more, path, line)
        self.key = key

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        # By default, pickle would pass the message to __init__, and workers could not raise it.
        return type(self), (self.problems, self.path, self.key)


class UnknownTableError(TraceProblemsError):
    """A table that is read only if its format is named; the message has the call that does.

    `looks` says what the table looks like, and `hint`, after the call, more on the options.
    """

    def __init__(self, looks: str, path: str | Path, format: str,
                 options: Mapping[str, str] | None = None, hint: str = "") -> None:
        options = options or {}
        settings = {"format": format, **options}
        call = ", ".join((repr(str(path)), *(f"{name}={value!r}"
                                             for name, value in settings.items())))
        flags = " ".join((f"--format {format}", *_flags(options)))
        super().__init__([Problem(None, f"{looks}; read it with netsim.read_workload({call}), on "
                                        f"the command line with {flags}{hint}")], path)
        keys = ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}"
                         for name, value in settings.items())
        own = " ".join(_flags({f"workload.{name}": value for name, value in settings.items()}))
        #: The message for an experiment whose workload is this file.
        self.experiment = f"{path}: {looks}; add {keys}, on the command line {own}{hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        return NetsimError.__reduce__(self)


def _flags(settings: Mapping[str, str]) -> list[str]:
    """List the arguments of the command line that set options to these texts, for a shell."""
    texts = {name: value if parse_value(value) == value else json.dumps(value, ensure_ascii=False)
             for name, value in settings.items()}
    return [f"--set {shlex.quote(f'{name}={text}')}" for name, text in texts.items()]


def listed_names(names: Sequence[str]) -> str:
    """Join names for a message; long lists are cut."""
    more = ["..."] * (len(names) > _MOST_LISTED)
    return ", ".join([*map(repr, names[:_MOST_LISTED]), *more])


@contextmanager
def as_problems(path: str | Path) -> Iterator[None]:
    """Turn errors in a file, and in options that contradict it, into problems of the file."""
    try:
        yield
    except (TraceProblemsError, UnknownNameError):
        raise
    except TraceError as error:
        raise TraceProblemsError([Problem(error.line, error.message)], error.path or path,
                                 error.key) from error
    except InputError as error:
        raise TraceProblemsError([Problem(None, str(error))], path, error.key) from error


class NumberRange(NamedTuple):
    """The range of numbers that a field accepts; `str` describes it for messages.

    Both bounds are included. The default ones exceed any realistic value, but sums of allowed
    values cannot overflow.
    """

    least: float = 0.0
    most: float = 1e18
    whole: bool = False

    def __str__(self) -> str:
        return f"a {'whole ' * self.whole}number from {self.least:g} to {self.most:g}"

    def number(self, value: object) -> float | None:
        """Return `value` as an int or a float, or None if it is not allowed."""
        if not (is_number(value) and self.least <= value <= self.most):  # NaN compares false
            return None
        if self.whole:
            return int(value) if value == int(value) else None
        return float(value)


#: Weights and deadlines.
POSITIVE = NumberRange(least=1e-18)


#: Converter of factors among the options of readers.
as_factor = partial(as_number, least=0, most=1e18)


# --- text and rows -------------------------------------------------------------------------

#: What the first word of a workload file of AICB begins with, also if its title is missing.
OF_AICB = ("[", "comm_type,", "CommType.")

#: Number of characters of a table in which its first line is sought.
_HEADER = 100_000

#: A cell in quotes; the closing quote may be cut off.
_QUOTED = re.compile(r'(?:^|(?<=[,;\t])) *"(?:[^"]|"")*"?')


def require_file(path: str | Path) -> Path:
    """Return `path` as a `Path`, or raise `TraceError` if it is not an existing file."""
    path = as_path(path, "path")
    if os.path.isdir(path):
        raise TraceError("is a folder, not a file" + _such_as(path), path)
    if not os.path.exists(path):
        raise TraceError("no such file", path)
    return Path(path)


def _such_as(folder: str | Path) -> str:
    """Suggest a file in a folder, as the end of a message; "" if it has none."""
    names: list[str] = []
    with suppress(OSError):
        names = sorted(entry.name for entry in os.scandir(folder)
                       if entry.is_file() and not entry.name.startswith("."))
    return f"; give one that is in it, such as {names[0]}" if names else ""


def read_text(path: str | Path) -> str:
    """Read a UTF-8 file without its byte-order mark; refuse an empty file or NUL characters."""
    try:
        text = text_of(require_file(path))
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", path) from error
    except UnicodeDecodeError as error:
        data = error.object
        line = len(split_lines(data[: error.start].decode("utf-8")))
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise TraceProblemsError([Problem(line, message)], path) from error
    if (place := text.find("\0")) >= 0:
        raise nul_problem(text.count("\n", 0, place) + 1, path)
    if not text.strip():
        raise TraceProblemsError([Problem(1, "the file is empty")], path)
    return text


def nul_problem(line: int, path: str | Path) -> TraceProblemsError:
    """Make the error about a NUL character, which some parsers would take for the end."""
    return TraceProblemsError([Problem(line, "a NUL character, which no text has")], path)


def first_word(path: str | Path) -> str:
    """Return the first word of a file; empty if there is none, or it cannot be read."""
    try:
        with open_text(path) as file:
            words = file.readline(200).split(maxsplit=1)
    except (OSError, UnicodeDecodeError):
        return ""
    return words[0] if words else ""


def delimiter_of(text: str) -> str:
    """Find the delimiter of a table in its first line: the most frequent one, or a comma.

    Blank lines and what is in quotes do not count.

    >>> delimiter_of("\\nsrc,dst"), delimiter_of('src;"a,b,c"'), delimiter_of("src")
    (',', ';', ',')
    """
    header = split_lines(text.lstrip()[:_HEADER])[0]
    return max(",;\t", key=_QUOTED.sub("", header).count)  # the first of equal ones


def header_of(path: str | Path) -> list[str]:
    """Return the cells of the first line of a table; empty if it cannot be read."""
    try:
        with open_text(path) as file:
            first = file.read(10_000).lstrip()
            header = next(csv.reader(io.StringIO(first), delimiter=delimiter_of(first)), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return []
    return [name.strip() for name in header]


def split_lines(text: str) -> list[str]:
    """Split text at line ends only; `str.splitlines` also splits at seven other characters."""
    return re.split(r"\r\n|\r|\n", text)


def write_text(text: str, path: str | Path) -> None:
    """Write a UTF-8 file atomically: under a temporary name that is then renamed."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


# --- JSON ----------------------------------------------------------------------------------
def parse_json(text: str, path: str | Path) -> dict[str, Any]:
    """Parse the text of a JSON file that must hold an object; else raise `TraceProblemsError`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of 5,000 digits, 5,000 brackets
        raise TraceProblemsError([json_problem(error, text)], path) from error
    if not isinstance(document, dict):
        message = f"the file must hold a JSON object, not {reprlib.repr(document)}"
        raise TraceProblemsError([Problem(None, message)], path)
    return document


def json_problem(error: Exception, text: str) -> Problem:
    """Describe why a text could not be read as JSON, with the line if it is known."""
    if isinstance(error, json.JSONDecodeError):
        return Problem(error.lineno, f"not JSON: {error.msg} at column {error.colno}")
    if isinstance(error, RecursionError):
        depth, at = _deepest(text)
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        return Problem(line, f"not read as JSON: {depth:,} brackets are open at column {column}")
    return Problem(None, f"not read as JSON: {error}")


def _deepest(text: str) -> tuple[int, int]:
    """Find the greatest depth of open brackets, and where it is first reached."""
    depth = most = place = 0
    for match in _TOKEN.finditer(text):
        if match[0] in ("[", "{"):
            depth += 1
            if depth > most:
                most, place = depth, match.start()
        elif match[0] in ("]", "}"):
            depth -= 1
    return most, place


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[^\s",:\[\]{}]+|[\[\]{}]')


@dataclass(slots=True)
class _OpenContainer:
    """A list or object that is still open while scanning, and the index or key that is next."""

    path: str
    next: int | str | None

    def take(self) -> str:
        """Return the path of the next value, and move past it."""
        if isinstance(self.next, int):
            self.next += 1
            return f"{self.path}[{self.next - 1}]"
        key, self.next = self.next, None
        return f"{self.path}.{key}" if self.path else str(key)


def lines_of(text: str, paths: Container[str]) -> dict[str, int]:
    """Find the lines, counted from 1, on which values of a valid JSON document begin.

    `paths` are JSON paths, such as ``jobs[2].coflows[0][1].src``; the result lacks those that the
    document lacks.
    """
    found: dict[str, int] = {}
    ends = [match.start() for match in re.finditer("\n", text)]
    around: list[_OpenContainer] = []
    for token in _TOKEN.finditer(text):
        if token[0] in "]}":
            around.pop()
        elif around and around[-1].next is None:
            around[-1].next = str(json.loads(token[0]))
        else:
            path = around[-1].take() if around else ""
            if path in paths:
                found[path] = 1 + bisect(ends, token.start())
            if token[0] in "[{":
                around.append(_OpenContainer(path, 0 if token[0] == "[" else None))
    return found


def _path_and_containers(path: str) -> list[str]:
    """List the path of a value, and then the paths of its containers from inside out."""
    parts = re.findall(r"\[\d+\]|[^\[\]]+?(?=\.|\[|$)", path)
    return ["".join(parts[:count]) for count in range(len(parts), 0, -1)]


class Checker:
    """Validates an instance and collects its problems, so that reading continues after the first.

    Most methods take a value and its JSON path, such as ``jobs[2].coflows[0][1]``. If the value is
    invalid, they record a problem and return a placeholder of the right type; the reader discards
    everything that was built from placeholders.

    With `by_name`, some hosts are given by name: ranks of jobs are then the hosts of the file in
    the order in which they occur. Otherwise rank k is on host k.
    """

    def __init__(self, document: dict[str, Any], by_name: bool = False) -> None:
        #: JSON path and message, in the order in which they were found.
        self.problems: list[tuple[str, str]] = []
        self._places: dict[str | int, int] | None = {} if by_name else None
        self.found_name = False  #: a host is given by name: read again `by_name`
        # Limited so that a typo in one src does not exhaust the memory.
        self._hosts = limit = most("ports")
        hosts = self.whole(document.get("hosts", limit), "hosts", 1, limit, raised_by("ports"))
        self._hint = raised_by("ports") if hosts == limit else ""
        if not self.problems:
            self._hosts = hosts

    def problems_in(self, text: str) -> list[Problem]:
        """Return the problems with their lines in the text of the document, sorted by line."""
        ways = {where: _path_and_containers(where) for where, _ in self.problems}
        lines = lines_of(text, {path for way in ways.values() for path in way})
        found = [Problem(next((lines[path] for path in ways[where] if path in lines), None),
                         where + message) for where, message in self.problems]
        return sorted(found, key=lambda problem: problem.line or 0)

    def refuse(self, where: str, message: str) -> None:
        """Record a problem."""
        self.problems.append((where, message))

    def must_be(self, where: str, allowed: object, value: object, hint: str = "") -> None:
        """Record that a value is not an allowed one."""
        self.refuse(where, f" must be {allowed}, not {reprlib.repr(value)}{hint}")

    def table(
        self, value: object, where: str, required: Collection[str], optional: Iterable[str] = ()
    ) -> dict[str, Any] | None:
        """Check that a value is an object with the right keys; return it, or None if not."""
        if not isinstance(value, dict):
            self.must_be(where, f"an object with {', '.join(required)}" if required else
                         "an object", value)
            return None
        known = len(self.problems)
        choices = {*required, *optional}
        for key in value:
            if key not in choices:
                self.refuse(where, f": {UnknownNameError('key', key, choices)}")
        for key in required:
            if key not in value:
                self.refuse(where, f": the key {key!r} is missing in {reprlib.repr(value)}")
        return value if len(self.problems) == known else None

    def items(self, value: object, where: str, *, empty: bool = True) -> list[Any]:
        """Check that a value is a list; return it, or an empty list if not."""
        if not isinstance(value, list):
            self.must_be(where, "a list", value)
            return []
        if not (value or empty):
            self.refuse(where, " must not be empty")
        return value

    def number(self, value: object, where: str, allowed: NumberRange, hint: str = "") -> float:
        """Check that a value is a number in a range; return it, or the least allowed."""
        number = allowed.number(value)
        if number is None:
            large = is_number(value) and value > allowed.most
            self.must_be(where, allowed, value, hint if large else "")
            return allowed.least
        return number

    def optional(self, entry: dict[str, Any], key: str, where: str, allowed: NumberRange
                 ) -> float | None:
        """Read an optional number of a coflow or stage; None if it is missing."""
        return self.number(entry[key], f"{where}.{key}", allowed) if key in entry else None

    def whole(self, value: object, where: str, least: int = 0, most: float = 1e15, hint: str = ""
              ) -> int:
        """Check that a value is a whole number between `least` and `most`; return it."""
        return int(self.number(value, where, NumberRange(least, most, whole=True), hint))

    def flag(self, value: object, where: str) -> bool:
        """Check that a value is true or false; return it."""
        if not isinstance(value, bool):
            self.must_be(where, "true or false", value)
        return value is True

    def text(self, value: object, where: str) -> str:
        """Check that a value is a string that can be encoded; return it, or ``""`` if not."""
        try:
            return as_name(value, "")
        except InputError as error:
            self.refuse(where, str(error))
            return ""

    def flows(self, value: object, where: str) -> Flows:
        """Read the flows of a coflow, ``[{src, dst, bytes}, ...]``."""
        rows: list[tuple[int, int, float]] = []
        for k, entry in enumerate(self.items(value, where)):
            at = f"{where}[{k}]"
            flow = self.table(entry, at, ("src", "dst", "bytes"))
            if flow is not None:
                rows.append((self.host(flow["src"], f"{at}.src"),
                             self.host(flow["dst"], f"{at}.dst"),
                             self.number(flow["bytes"], f"{at}.bytes", NumberRange())))
        return Flows.of(rows)

    def host(self, value: object, where: str) -> int:
        """Check that a value is a host; return its rank."""
        if isinstance(value, str):
            self.found_name = True
            host: str | int = self.text(value, where)
        else:
            host = self.whole(value, where, 0, self._hosts - 1, self._hint)
        if self._places is not None:
            return self._places.setdefault(host, len(self._places))
        return 0 if isinstance(host, str) else host

    def job(
        self,
        where: str,
        job_id: int,
        arrival_s: float,
        stages: Sequence[Stage],
        **more: Any,
    ) -> JobSpec | None:
        """Make a job whose ranks run on the hosts of the file; None if `JobSpec` rejects it.

        `more` are other arguments of `JobSpec`, which finds problems of the graph of stages:
        unknown parents, cycles, duplicate names.
        """
        ranks = max([stage.flows.ranks for stage in stages if stage.flows is not None]
                    + [max(stage.ranks) + 1 for stage in stages if stage.ranks], default=0)
        hosts = range(ranks) if self._places is None else islice(self._places, ranks)
        try:
            return JobSpec(job_id, arrival_s, stages=tuple(stages), hosts=tuple(hosts), **more)
        except InputError as error:
            self.refuse(where, f": {error}")
            return None


def kind_of_json(document: object) -> str:
    """Say what a document is and how to read it, to be added to a message; "" if unknown."""
    if not isinstance(document, Mapping):
        return ""
    if "traceEvents" in document:
        return '; it is a profile of PyTorch (Kineto): format = "kineto"'
    if "profiles" in document:
        return '; it is a workload of Batsim: format = "batsim"'
    if "workload_graph" in document:
        return '; it is a trace of Chakra: format = "chakra"'
    if "schema" in document and "nodes" in document:
        return ("; it is an execution trace of PyTorch: Chakra's chakra_trace_link and "
                "chakra_converter make a trace of Chakra of it and of a profile")
    return ""
