"""Files in: the one reader of what netsim is given, which decides what may be opened.

Whatever is read is opened here. Only regular files are: a pipe might never end, and a device
never does. Where reading is `confined`, as it is for an experiment that nobody vouches for, only
files in some folders are, however they are named, and by whatever file.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, TextIO

__all__ = ["confined", "open_bytes", "open_text", "read_bytes", "read_text", "refusal"]

#: What netsim brings along, in the package or beside it in a checkout.
_PACKAGE = Path(os.path.realpath(__file__)).parent
_OWN = (_PACKAGE, *(_PACKAGE.parent / name for name in ("topologies", "workloads")
                    if not (_PACKAGE / name).is_dir()))

#: Of each confinement that reading is in, its folders and its files; their real paths.
_confinements: ContextVar[tuple[tuple[tuple[Path, ...], frozenset[Path]], ...]] = ContextVar(
    "confinements", default=())

_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
          stat.S_IFSOCK: "a socket"}


@contextmanager
def confined(*folders: str | Path, files: Iterable[str | Path] = ()) -> Iterator[None]:
    """Let only files in some folders be opened, and those that come with netsim; links count.

    Parameters
    ----------
    *folders : path-like
    files : iterable of path-like
        Files elsewhere that may be opened, too.
    """
    own = (tuple(Path(os.path.realpath(folder)) for folder in folders),
           frozenset(Path(os.path.realpath(file)) for file in files))
    token = _confinements.set((*_confinements.get(), own))
    try:
        yield
    finally:
        _confinements.reset(token)


def refusal(path: str | Path) -> str | None:
    """Return why a path may not be opened, whatever is there; None if it may."""
    if not _confinements.get():
        return None
    try:
        real = Path(os.path.realpath(path))
    except ValueError:  # of a path that holds a NUL
        real = None
    for folders, files in _confinements.get():
        if real is None or not (real in files or any(
                map(real.is_relative_to, (*folders, *_OWN)))):
            return ("leads out of the folder of the experiment, which is not allowed without "
                    "plug-ins")
    return None


def _allowed(path: str | Path) -> str | Path:
    """Return a path, if it is one that may be opened.

    Raises
    ------
    OSError
        If it may not, or nothing is there.
    """
    if (reason := refusal(path)) is not None:
        raise PermissionError(errno.EACCES, reason, os.fspath(path))
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:  # of a path that holds a NUL
        raise OSError(errno.EINVAL, str(error), os.fspath(path)) from error
    if (kind := _KINDS.get(stat.S_IFMT(mode))) is not None:
        raise OSError(errno.EINVAL, f"is {kind}, not a regular file", os.fspath(path))
    return path


def open_text(path: str | Path, newline: str | None = None) -> TextIO:
    """Open a UTF-8 file to read it, without its byte order mark.

    Parameters
    ----------
    path : path-like
    newline : str, optional
        As for `open`: all line ends are read as newlines if not given, and as they are with ``""``.

    Raises
    ------
    OSError
        If it cannot be opened, or may not.
    """
    return open(_allowed(path), encoding="utf-8-sig", newline=newline)


def open_bytes(path: str | Path) -> BinaryIO:
    """Open a file to read it.

    Raises
    ------
    OSError
        As `open_text` does.
    """
    return open(_allowed(path), "rb")


def read_bytes(path: str | Path) -> bytes:
    """Return the bytes of a file.

    Raises
    ------
    OSError
        As `open_text` does.
    """
    with open_bytes(path) as file:
        return file.read()


def read_text(path: str | Path) -> str:
    r"""Return the text of a UTF-8 file, without its byte order mark; lines end in ``\n``.

    Raises
    ------
    OSError
        As `open_text` does.
    UnicodeDecodeError
        If it is not UTF-8.
    """
    text = read_bytes(path).removeprefix(codecs.BOM_UTF8).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")
