"""Open and read input files, and decide which files may be opened.

All input files are opened here. Only regular files are allowed, as pipes and devices may never end.
Within `confined`, which is used for experiments from untrusted sources, only files in certain
folders may be opened, regardless of how and where they are named.
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

#: Folders of files that are part of netsim, in the package or beside it in a checkout.
_PACKAGE = Path(os.path.realpath(__file__)).parent
_OWN = (_PACKAGE, *(_PACKAGE.parent / name for name in ("topologies", "workloads")
                    if not (_PACKAGE / name).is_dir()))

#: The allowed folders and files of each active confinement, as real paths.
_confinements: ContextVar[tuple[tuple[tuple[Path, ...], frozenset[Path]], ...]] = ContextVar(
    "confinements", default=())

_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
          stat.S_IFSOCK: "a socket"}


@contextmanager
def confined(*folders: str | Path, files: Iterable[str | Path] = ()) -> Iterator[None]:
    """Allow only files in some folders, and those that are part of netsim, to be opened.

    Further `files` may be opened as well. Symbolic links are resolved first. Confinements can be
    nested; all of them apply.
    """
    own = (tuple(Path(os.path.realpath(folder)) for folder in folders),
           frozenset(Path(os.path.realpath(file)) for file in files))
    token = _confinements.set((*_confinements.get(), own))
    try:
        yield
    finally:
        _confinements.reset(token)


def refusal(path: str | Path) -> str | None:
    """The reason for which `confined` does not allow a path; None if it is allowed."""
    if not _confinements.get():
        return None
    try:
        real = Path(os.path.realpath(path))
    except ValueError:  # the path contains a NUL character
        real = None
    for folders, files in _confinements.get():
        if real is None or not (real in files or any(
                map(real.is_relative_to, (*folders, *_OWN)))):
            return ("leads out of the folder of the experiment, which is not allowed without "
                    "plug-ins")
    return None


def _allowed(path: str | Path) -> str | Path:
    """Return a path that may be opened; raise an `OSError` if it may not, or does not exist."""
    if (reason := refusal(path)) is not None:
        raise PermissionError(errno.EACCES, reason, os.fspath(path))
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:  # the path contains a NUL character
        raise OSError(errno.EINVAL, str(error), os.fspath(path)) from error
    if (kind := _KINDS.get(stat.S_IFMT(mode))) is not None:
        raise OSError(errno.EINVAL, f"is {kind}, not a regular file", os.fspath(path))
    return path


def open_text(path: str | Path, newline: str | None = None) -> TextIO:
    """Open a UTF-8 file for reading, skipping a byte-order mark; `newline` is as for `open`."""
    return open(_allowed(path), encoding="utf-8-sig", newline=newline)


def open_bytes(path: str | Path) -> BinaryIO:
    """Open a file for reading bytes."""
    return open(_allowed(path), "rb")


def read_bytes(path: str | Path) -> bytes:
    """Read the bytes of a file."""
    with open_bytes(path) as file:
        return file.read()


def read_text(path: str | Path) -> str:
    r"""Read the text of a UTF-8 file, without a byte-order mark, and with ``\n`` as line ends."""
    text = read_bytes(path).removeprefix(codecs.BOM_UTF8).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")
