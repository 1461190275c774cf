"""Read a long JSON array entry by entry, in memory for the longest entry only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from netsim.reading import open_text
from netsim.traces.cluster.tables import locating
from netsim.traces.files import require_file
from netsim.traces.problems import Problem, TraceProblemsError

_BLOCK = 1 << 18
_LONGEST = 1 << 24
#: A token other than a string is at most this long, so that one cut off at a block's end is near.
_TOKEN = 64
_SPACE = " \t\n\r"


def read_entries(path: str | Path, block: int = _BLOCK) -> Iterator[tuple[int, Any]]:
    """Yield the entries of a file that is one JSON array, each with the line on which it begins.

    `block` is the number of characters to read at once.
    """
    with locating(path), open_text(require_file(path)) as file:
        text = _Buffer(file, path, block)
        first = text.peek()
        if not first:
            raise text.problem("the file is empty" if text.line == 1 else "the file is blank")
        if first != "[":
            raise text.problem(f"the file must hold a JSON array, which begins with '[', "
                               f"not with {first!r}")
        text.skip()
        if text.peek() != "]":
            yield text.entry()
            while text.peek() == ",":
                text.skip()
                yield text.entry()
            if text.peek() != "]":
                raise text.problem(f"not JSON: ',' or ']' must follow an entry, not {text.found}")
        text.skip()
        if text.peek():
            raise text.problem(f"not JSON: {text.found} follows the end of the array")


class _Buffer:
    """A buffer of the unused text of a file; `line` is the line of its first character."""

    def __init__(self, file: TextIO, path: str | Path, block: int) -> None:
        self._file, self._path, self._block = file, path, block
        self._text, self._at = "", 0
        self._decode = json.JSONDecoder().raw_decode
        self.line = 1

    def problem(self, message: str, line: int | None = None) -> TraceProblemsError:
        return TraceProblemsError([Problem(line or self.line, message)], self._path)

    @property
    def found(self) -> str:
        rest = self._text[self._at:self._at + 20]
        return repr(rest) if rest else "the end of the file"

    def peek(self) -> str:
        """Skip white space and return the next character; ``""`` at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self.skip()
            if self._at < len(self._text) or not self._read_more():
                return self._text[self._at:self._at + 1]

    def skip(self) -> None:
        self.line += self._text[self._at] == "\n"
        self._at += 1

    def _read_more(self) -> bool:
        """Read more text, at least doubling the buffer; return False at the end of the file."""
        rest = self._text[self._at:]
        read = self._file.read(max(self._block, len(rest)))
        self._text, self._at = rest + read, 0
        return bool(read)

    def entry(self) -> tuple[int, Any]:
        """Parse the next value; return the line on which it begins, and the value."""
        self.peek()
        begin = self.line
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                line = begin + self._text.count("\n", self._at, error.pos)
                if (self._may_be_incomplete(error) and len(self._text) - self._at < _LONGEST
                        and self._read_more()):
                    continue
                raise self.problem(f"not JSON: {error.msg}", line) from error
            except (ValueError, RecursionError) as error:  # numbers of 5,000 digits, brackets
                raise self.problem(f"not read as JSON: {error}", begin) from error
            self.line += self._text.count("\n", self._at, end)
            self._at = end
            return begin, value

    def _may_be_incomplete(self, error: json.JSONDecodeError) -> bool:
        """Whether the error may be due to a value that is cut off at the end of the buffer."""
        return (error.pos > len(self._text) - _TOKEN
                or error.msg.startswith("Unterminated string"))
