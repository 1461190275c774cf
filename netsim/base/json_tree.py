"""Documents in JSON, read and checked, with the line of each value that is wrong."""

from __future__ import annotations

import json
import re
import reprlib
from bisect import bisect
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.base.reading import NumberRange, Problem, TraceProblemsError
from netsim.base.values import as_name, is_number
from netsim.errors import InputError, UnknownNameError


def parse_json(text: str, path: str | Path, **options: Any) -> Any:
    """Parse the text of a JSON file, with options of `json.loads`."""
    try:
        return json.loads(text, **options)
    # Numbers of 5,000 digits, 5,000 brackets, exponents that no decimal has.
    except (ValueError, RecursionError, ArithmeticError) as error:
        raise TraceProblemsError([json_problem(error, text)], path) from error


def parse_object(text: str, path: str | Path) -> dict[str, Any]:
    """Parse the text of a JSON file that must hold an object."""
    document = parse_json(text, path)
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


def lines_of_values(text: str, paths: Container[str]) -> dict[str, int]:
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
    """Validates a document and collects its problems, so that reading continues after the first.

    Most methods take a value and its JSON path, such as ``jobs[2].coflows[0][1]``. If the value is
    invalid, they record a problem and return a placeholder of the right type; the reader discards
    everything that was built from placeholders.
    """

    def __init__(self) -> None:
        #: JSON path and message, in the order in which they were found.
        self.problems: list[tuple[str, str]] = []

    def problems_in(self, text: str) -> list[Problem]:
        """Return the problems with their lines in the text of the document, sorted by line."""
        ways = {where: _path_and_containers(where) for where, _ in self.problems}
        lines = lines_of_values(text, {path for way in ways.values() for path in way})
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
