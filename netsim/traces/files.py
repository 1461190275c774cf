"""Read and write text files, with errors that name the line and writes that are atomic."""

from __future__ import annotations

import csv
import io
import os
import re
from contextlib import suppress
from pathlib import Path

from netsim.atomic import atomic_write
from netsim.errors import TraceError
from netsim.reading import open_text
from netsim.reading import read_text as text_of
from netsim.traces.problems import Problem, TraceProblemsError

#: What the first word of a workload file of AICB begins with, also if its title is missing.
OF_AICB = ("[", "comm_type,", "CommType.")

#: Number of characters of a table in which its first line is sought.
_HEADER = 100_000

#: A cell in quotes; the closing quote may be cut off.
_QUOTED = re.compile(r'(?:^|(?<=[,;\t])) *"(?:[^"]|"")*"?')


def require_file(path: str | Path) -> Path:
    """Return `path` as a `Path`, or raise `TraceError` if it is not an existing file."""
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
