"""Files of lines of words, with errors that name the line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from netsim.errors import TraceError
from netsim.network.graph_files import read_text

_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_MOST = 1e100  # as of quantities with units
_NUMBER = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d{1,3})?", re.IGNORECASE | re.ASCII)


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
        word = self.word(place, what)
        value = int(word) if _WHOLE.fullmatch(word) else None
        if value is None or value < least or (most is not None and value > most):
            allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
            self.refuse(f"{what} must be a whole number {allowed}, not {word!r}")
        return value

    def real(self, place: int, what: str, *, strict: bool = False) -> float:
        """Return a word as a number from 0 to 1e100, or above 0 if `strict`."""
        word = self.word(place, what)
        value = float(word) if _NUMBER.fullmatch(word) else math.nan
        if not (0 <= value <= _MOST) or (strict and not value):
            allowed = "greater than 0, up to" if strict else "from 0 to"
            self.refuse(f"{what} must be a number {allowed} {_MOST:g}, not {word!r}")
        return value


def lines_of(path: Path, comment: str | None = None) -> Iterator[Line]:
    """Yield the lines of a file that are not blank and do not begin with `comment`."""
    for number, text in enumerate(read_text(path).split("\n"), 1):
        words = text.split()
        if words and not (comment and words[0].startswith(comment)):
            yield Line(path, number, words)
