"""JSON documents, read value by value with the path of everything that is wrong."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from netsim.errors import InputError, UnknownNameError
from netsim.model import Flows, JobSpec, Stage
from netsim.traces.files import read_text
from netsim.traces.problems import POSITIVE, Problem, Rule, TraceProblemsError

__all__ = ["Checker", "load_json"]

_MOST_HOSTS = 100_000  # a slip of the pen in one src shall not fill the memory


def load_json(path: str | Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If it is not JSON, with the line, or not an object.
    """
    text = read_text(path)
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg} at column {error.colno}"
        raise TraceProblemsError([Problem(error.lineno, message)], path) from error
    except (ValueError, RecursionError) as error:  # numbers of 5,000 digits, 5,000 brackets
        raise TraceProblemsError([Problem(None, f"not read as JSON: {error}")], path) from error
    if not isinstance(document, dict):
        message = f"the file must hold a JSON object, not {reprlib.repr(document)}"
        raise TraceProblemsError([Problem(None, message)], path)
    return document


class Checker:
    """Collects the problems of an instance, so that reading can go on after the first.

    Every method takes a value and its JSON path, such as ``jobs[2].coflows[0][1]``. Where the
    value is not allowed it notes a problem and returns something of the right type: what is
    built of it is dropped.

    Parameters
    ----------
    document : dict
        The instance; its key ``hosts`` bounds src and dst.

    Attributes
    ----------
    problems : list of Problem
        In the order in which they were found.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.problems: list[Problem] = []
        hosts = self.whole(document.get("hosts", _MOST_HOSTS), "hosts", 1, _MOST_HOSTS)
        self._hosts = _MOST_HOSTS if self.problems else hosts

    def refuse(self, where: str, message: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(None, f"{where}{message}"))

    def must_be(self, where: str, allowed: object, value: object) -> None:
        """Note that a value is not what it must be."""
        self.refuse(where, f" must be {allowed}, not {reprlib.repr(value)}")

    def table(
        self, value: object, where: str, required: Iterable[str], optional: Iterable[str] = ()
    ) -> dict[str, Any] | None:
        """Return an object with the keys allowed, or None where it is not one."""
        if not isinstance(value, dict):
            self.must_be(where, "an object", value)
            return None
        known = len(self.problems)
        choices = {*required, *optional}
        for key in value:
            if key not in choices:
                self.refuse(where, f": {UnknownNameError('key', key, choices)}")
        for key in required:
            if key not in value:
                self.refuse(where, f": the key {key!r} is missing")
        return value if len(self.problems) == known else None

    def items(self, value: object, where: str, *, empty: bool = True) -> list[Any]:
        """Return a list."""
        if not isinstance(value, list):
            self.must_be(where, "a list", value)
            return []
        if not (value or empty):
            self.refuse(where, " must not be empty")
        return value

    def number(self, value: object, where: str, rule: Rule) -> float:
        """Return a number that `rule` allows."""
        number = rule.number(value)
        if number is None:
            self.must_be(where, rule, value)
            return rule.least
        return number

    def deadline(self, entry: dict[str, Any], where: str) -> float | None:
        """Return the ``deadline_s`` of a coflow or a stage, None if it has none."""
        if "deadline_s" not in entry:
            return None
        return self.number(entry["deadline_s"], f"{where}.deadline_s", POSITIVE)

    def whole(self, value: object, where: str, least: int = 0, most: float = 1e15) -> int:
        """Return a whole number."""
        return int(self.number(value, where, Rule(least, most, whole=True)))

    def text(self, value: object, where: str) -> str:
        """Return a string."""
        if not isinstance(value, str):
            self.must_be(where, "a string", value)
            return ""
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            self.must_be(where, "a string that can be written as UTF-8", value)
            return ""
        return value

    def flows(self, value: object, where: str) -> Flows:
        """Return the flows of a coflow, ``[{src, dst, bytes}, ...]``."""
        last = self._hosts - 1
        rows: list[tuple[int, int, float]] = []
        for k, entry in enumerate(self.items(value, where)):
            at = f"{where}[{k}]"
            flow = self.table(entry, at, ("src", "dst", "bytes"))
            if flow is not None:
                rows.append((self.whole(flow["src"], f"{at}.src", 0, last),
                             self.whole(flow["dst"], f"{at}.dst", 0, last),
                             self.number(flow["bytes"], f"{at}.bytes", Rule())))
        return Flows.of(rows)

    def job(
        self,
        where: str,
        job_id: int,
        arrival_s: float,
        stages: Sequence[Stage],
        iterations: int = 1,
        name: str = "",
    ) -> JobSpec | None:
        """Return a job whose rank k runs on host k, or None where the model refuses it.

        The model checks what no single value shows: unknown parents, cycles, equal names.
        """
        ranks = max((stage.flows.ranks for stage in stages if stage.flows is not None), default=0)
        try:
            return JobSpec(job_id, arrival_s, iterations, tuple(stages), name=name,
                           hosts=tuple(range(ranks)))
        except InputError as error:
            self.refuse(where, f": {error}")
            return None
