"""The lines of a TOML file on which its keys stand, for errors: `tomllib` does not tell them."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Mapping

from netsim.text import visible

_PART = r"""(?:"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[\w-]+)"""
_KEY = re.compile(rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*")

#: Strings of several lines, strings of one, and other values but lists and tables.
_VALUE = re.compile(r'''"""(?s:\\.|[^\\])*?"{3,5}|\'\'\'(?s:.)*?'{3,5}'''
                    r'''|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[^,\]}#\n]+''')

#: What may stand between statements, keys and values: white space, line ends and comments.
_GAP = re.compile(r"(?:\s|#.*)*")

_CLOSING = {"[": "]", "{": "}"}

Path = tuple[str, ...]


def line_of(problem: str, lines: Mapping[str, int]) -> int | None:
    """The line of the key path at the beginning of a problem, or else of the table around it."""
    key = problem.partition(": ")[0]
    while key and key not in lines:
        key = key.rpartition(".")[0]
    return lines.get(key)


def lines_of_keys(text: str) -> dict[str, int]:
    """Map the paths of keys, tables and entries of lists to lines, counted from 1.

    The text is valid TOML. Paths are as in errors, such as ``"compare.allocators.1.name"``.
    """
    try:
        return _Scanner(text).lines
    except RecursionError:  # of nested lists, in which tomllib needs a bit less of the stack
        return {}


class _Scanner:
    """Reads valid TOML once; `lines` maps paths to lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: dict[str, int] = {}
        self._ends = [end.start() for end in re.finditer("\n", text)]
        self._last: dict[Path, int] = {}  # of each list of tables, the index of the last one
        table: Path = ()
        at = self._skip(0)
        while at < len(text):
            if text[at] == "[":
                at, table = self._header(at)
            else:
                at = self._pair(at, table)
            at = self._skip(at)

    def _skip(self, at: int) -> int:
        gap = _GAP.match(self.text, at)
        return at if gap is None else gap.end()

    def _note(self, path: Path, at: int, explicit: bool = True) -> Path:
        """Note the line of a path; of a table that is only named in passing, the first one."""
        key = visible(".".join(path))
        if explicit or key not in self.lines:
            self.lines[key] = bisect_left(self._ends, at) + 1
        return path

    def _below(self, table: Path, parts: list[str], at: int) -> Path:
        """The path of a dotted key below a table; the tables that it opens are noted."""
        for part in parts[:-1]:
            table = self._in_list(self._note((*table, part), at, explicit=False))
        return (*table, parts[-1])

    def _in_list(self, table: Path) -> Path:
        """The last entry of a list of tables; another table as it is."""
        return (*table, str(self._last[table])) if table in self._last else table

    def _key(self, at: int) -> tuple[list[str], int]:
        """The parts of the dotted key at a place, and where it ends."""
        key = _KEY.match(self.text, at)
        assert key is not None
        table, parts = tomllib.loads(f"{key[0]} = 0"), []
        while isinstance(table, dict):
            (part, table), = table.items()
            parts.append(part)
        return parts, key.end()

    def _header(self, at: int) -> tuple[int, Path]:
        """Read ``[a.b]`` or ``[[a.b]]``; return the place after it, and the path of the table."""
        brackets = 2 if self.text.startswith("[[", at) else 1
        parts, end = self._key(self._skip(at + brackets))
        table = self._below((), parts, at)
        if brackets == 2:
            self._note(table, at, explicit=False)
            self._last[table] = self._last.get(table, -1) + 1
            table = self._in_list(table)
        return self._skip(end) + brackets, self._note(table, at)

    def _pair(self, at: int, table: Path) -> int:
        """Read a key and its value; return the place after them."""
        parts, end = self._key(at)
        path = self._note(self._below(table, parts, at), at)
        return self._value(self._skip(self._skip(end) + 1), path)

    def _value(self, at: int, path: Path) -> int:
        """Read a value; return the place after it."""
        closing = _CLOSING.get(self.text[at])
        if closing is None:
            value = _VALUE.match(self.text, at)
            assert value is not None
            return value.end()
        at, count = self._skip(at + 1), 0
        while self.text[at] != closing:
            if closing == "}":
                at = self._pair(at, path)
            else:
                at, count = self._value(at, self._note((*path, str(count)), at)), count + 1
            at = self._skip(at)
            if self.text[at] == ",":
                at = self._skip(at + 1)
        return at + 1
