"""What files of users hold, read and checked: texts, and words of lines, with the problems found.

Errors name the file, and the line if it is known. `netsim.base.json_tree` and
`netsim.base.xml_tree` are for JSON and XML.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from netsim.base.files import open_text, open_unpacked, ready_made_folder, refusal, stem_of
from netsim.base.files import read_bytes as bytes_of
from netsim.base.files import read_text as text_of
from netsim.base.values import as_path, is_number
from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.text import toml_problem


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


@contextmanager
def in_file(path: Path, line: int | None = None) -> Iterator[None]:
    """Give errors in this context the file and the line that they are in, unless they have one."""
    try:
        yield
    except TraceError:
        raise
    except InputError as error:
        raise TraceError(str(error), path, line, key=error.key) from error


@contextmanager
def locating(path: str | Path) -> Iterator[None]:
    """Convert errors in reading a UTF-8 file to errors that name the file and the line."""
    try:
        yield
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", path) from error
    except UnicodeDecodeError as error:  # of a file read in blocks, it has the place in a block
        with open_unpacked(path) as file:
            for number, line in enumerate(file, 1):
                decoded(line, path, number)
        raise TraceError("is not UTF-8", path) from error


# --- texts ---------------------------------------------------------------------------------
def require_file(path: str | Path) -> Path:
    """Return `path` as a `Path`, or raise `TraceError` if it is not an existing file."""
    path = as_path(path, "path")
    if (reason := refusal(path)) is not None:
        raise TraceError(f"cannot be read: {reason}", path)
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


def read_bytes(path: str | Path) -> bytes:
    """Read the bytes of a file, which must exist."""
    with locating(path):
        return bytes_of(require_file(path))


def read_text(path: str | Path) -> str:
    """Read a UTF-8 file without its byte-order mark; refuse an empty file or NUL characters."""
    with locating(path):
        text = text_of(require_file(path))
    if (place := text.find("\0")) >= 0:
        raise nul_problem(text.count("\n", 0, place) + 1, path)
    if not text.strip():
        raise TraceProblemsError([Problem(1, "the file is empty")], path)
    return text


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read the keys of a TOML file."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        place = re.search(r" \(at line (\d+), column \d+\)", str(error))
        line = int(place[1]) if place else None
        raise TraceProblemsError([Problem(line, toml_problem(error, text))], path) from error


def read_description(path: Path) -> dict[str, Any]:
    """Read a TOML file that describes what to make, which has the name of the file by default.

    The file of data that it may name is relative to it; its ``description`` is for people only.
    """
    table = {"name": stem_of(path)} | read_toml(path)
    table.pop("description", None)
    if isinstance(table.get("file"), str):
        table["file"] = path.parent / table["file"]
    return table


def ready_made_in(folder: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, str]:
    """List the ready-made TOML files of a folder with wanted keys: names to descriptions."""
    paths = sorted(ready_made_folder(folder).glob("*.toml"))
    tables = {path.stem: read_toml(path) for path in paths}
    return {name: str(table.get("description", "")) for name, table in tables.items()
            if wanted(table)}


def decoded(data: bytes | bytearray, path: str | Path, first: int = 1) -> str:
    """Decode UTF-8 that begins on the line `first` of a file."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = first - 1 + len(split_lines(data[:error.start].decode()))
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise TraceProblemsError([Problem(line, message)], path) from error


def beginning_of(path: str | Path, count: int) -> str:
    """Return the first characters of a file; ``""`` if it cannot be read."""
    with suppress(OSError, UnicodeDecodeError), open_text(path) as file:
        return file.read(count)
    return ""


def nul_problem(line: int, path: str | Path) -> TraceProblemsError:
    """Make the error about a NUL character, which some parsers would take for the end."""
    return TraceProblemsError([Problem(line, "a NUL character, which no text has")], path)


def split_lines(text: str) -> list[str]:
    """Split text at line ends only; `str.splitlines` also splits at seven other characters."""
    return re.split(r"\r\n|\r|\n", text)


# --- numbers and words ---------------------------------------------------------------------
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

_WHOLE = re.compile(r"\s*[+-]?\d{1,18}\s*", re.ASCII)

_MOST = 1e100  # as of quantities with units

_NUMBER = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d{1,3})?", re.IGNORECASE | re.ASCII)


def whole_of(word: str, what: str, refuse: Callable[[str], NoReturn], least: int,
             most: int | None = None) -> int:
    """Parse a word, perhaps between spaces, as a whole number from `least` to `most`."""
    value = int(word) if _WHOLE.fullmatch(word) else None
    if value is None or value < least or (most is not None and value > most):
        allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
        refuse(f"{what} must be a whole number {allowed}, not {word!r}")
    return value


@dataclass(frozen=True)
class Line:
    """The words of one line; lines are numbered from 1."""

    path: Path
    number: int
    words: Sequence[str]

    def refuse(self, message: str) -> NoReturn:
        """Raise a `TraceError` for this line."""
        raise TraceError(message, self.path, self.number)

    def word(self, place: int, what: str) -> str:
        """Return the word at a position, which must exist; `what` names the word in errors."""
        if place >= len(self.words):
            self.refuse(f"{what} is missing")
        return self.words[place]

    def whole(self, place: int, what: str, least: int = 0, most: int | None = None) -> int:
        """Return a word as a whole number from `least` to `most`."""
        return whole_of(self.word(place, what), what, self.refuse, least, most)

    def real(self, place: int, what: str, *, strict: bool = False) -> float:
        """Return a word as a number from 0 to 1e100, or above 0 if `strict`."""
        word = self.word(place, what)
        value = float(word) if _NUMBER.fullmatch(word) else math.nan
        if not (0 <= value <= _MOST) or (strict and not value):
            allowed = "greater than 0, up to" if strict else "from 0 to"
            self.refuse(f"{what} must be a number {allowed} {_MOST:g}, not {word!r}")
        return value


def lines_of(path: str | Path, comment: str | None = None) -> Iterator[Line]:
    """Yield the lines of a file that are not blank and do not begin with `comment`."""
    for number, text in enumerate(read_text(path).split("\n"), 1):
        words = text.split()
        if words and not (comment and words[0].startswith(comment)):
            yield Line(Path(path), number, words)
