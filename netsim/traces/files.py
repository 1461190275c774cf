"""What a file of a trace is: its first word, its columns, its keys, and tables of other names.

And what several readers need: a converter of factors, and groups of what is connected.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from netsim.base.reading import Problem, TraceProblemsError, beginning_of, split_lines
from netsim.base.units import parse_value
from netsim.base.values import as_number
from netsim.errors import NetsimError

#: Largest number of names that a message lists.
_MOST_LISTED = 12


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


#: Converter of factors among the options of readers.
as_factor = partial(as_number, least=0, most=1e18)


def connected(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Group the numbers below `count` that pairs connect, in ascending order; by union-find.

    >>> connected(4, [(3, 1)])
    [[0], [1, 3], [2]]
    """
    least = list(range(count))  # a smaller number of the group, or itself

    def first(k: int) -> int:
        while least[k] != k:
            least[k] = least[least[k]]
            k = least[k]
        return k

    for pair in pairs:
        low, high = sorted(map(first, pair))
        least[high] = low
    groups: dict[int, list[int]] = {}
    for k in range(count):
        groups.setdefault(first(k), []).append(k)
    return list(groups.values())


#: What the first word of a workload file of AICB begins with, also if its title is missing.
OF_AICB = ("[", "comm_type,", "CommType.")

#: Number of characters of a table in which its first line is sought.
_HEADER = 100_000

#: A cell in quotes; the closing quote may be cut off.
_QUOTED = re.compile(r'(?:^|(?<=[,;\t])) *"(?:[^"]|"")*"?')


def first_word(path: str | Path) -> str:
    """Return the first word of a file; empty if there is none, or it cannot be read."""
    words = beginning_of(path, 200).partition("\n")[0].split(maxsplit=1)
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
    first = beginning_of(path, 10_000).lstrip()
    with suppress(csv.Error):
        header = next(csv.reader(io.StringIO(first), delimiter=delimiter_of(first)), [])
        return [name.strip() for name in header]
    return []


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
