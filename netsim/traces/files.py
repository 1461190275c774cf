"""Text files in and out: errors with a place, and writes that are whole or not at all."""

from __future__ import annotations

import os
import re
from pathlib import Path

from netsim.atomic import atomic_write
from netsim.errors import TraceError
from netsim.reading import read_text as text_of
from netsim.traces.problems import Problem, TraceProblemsError

__all__ = ["read_text", "require_file", "split_lines", "write_text"]


def require_file(path: str | Path) -> Path:
    """Return `path` if a file is there.

    Raises
    ------
    TraceError
        If nothing is there, or a folder is.
    """
    if os.path.isdir(path):
        raise TraceError("is a folder, not a file", path)
    if not os.path.exists(path):
        raise TraceError("no such file", path)
    return Path(path)


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file, without its byte-order mark.

    Raises
    ------
    TraceError
        If there is no such file, or it cannot be read.
    TraceProblemsError
        If it is empty or not UTF-8.
    """
    try:
        text = text_of(require_file(path))
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", path) from error
    except UnicodeDecodeError as error:
        data = error.object
        line = len(split_lines(data[: error.start].decode("utf-8")))
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise TraceProblemsError([Problem(line, message)], path) from error
    if not text.strip():
        raise TraceProblemsError([Problem(1, "the file is empty")], path)
    return text


def split_lines(text: str) -> list[str]:
    """Split at line ends only; `str.splitlines` splits at seven other characters too."""
    return re.split(r"\r\n|\r|\n", text)


def write_text(text: str, path: str | Path) -> None:
    """Write a UTF-8 file under a temporary name, then rename it.

    Raises
    ------
    OutputError
        If it cannot be written; nothing is left behind then.
    """
    with atomic_write(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))
