"""Files: opened in one place, written whole or not at all, and the folder of compiled kernels.

All input files are opened here. Only regular files are allowed, as pipes and devices may never end.
Within `confined`, which is used for experiments from untrusted sources, only files in certain
folders may be opened, regardless of how and where they are named.
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import io
import os
import secrets
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from netsim.errors import OutputError


def ready_made_folder(name: str) -> Path:
    """Return a folder of files that come with netsim: in it, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / name
    return inside if inside.is_dir() else package.parent / name


#: Folders of files that are part of netsim, as real paths.
_OWN = tuple(Path(os.path.realpath(folder)) for folder in (
    Path(__file__).parents[1], *map(ready_made_folder, ("topologies", "workloads"))))

#: The allowed folders and files of each active confinement, as real paths.
_confinements: ContextVar[tuple[tuple[tuple[Path, ...], frozenset[Path]], ...]] = ContextVar(
    "confinements", default=())

_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
          stat.S_IFSOCK: "a socket"}

#: How files begin that gzip has compressed, and how much of them is unpacked at once.
_GZIP, _BLOCK = b"\x1f\x8b", 1 << 16


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
    """Open a UTF-8 file for reading, skipping a byte-order mark; `newline` is as for `open`.

    As all texts, it may be compressed by gzip.
    """
    return io.TextIOWrapper(open_unpacked(path), encoding="utf-8-sig", newline=newline)


def suffix_of(path: str | Path) -> str:
    """Return the suffix of a file, before that of gzip."""
    return _without_gzip(path).suffix


def stem_of(path: str | Path) -> str:
    """Return the name of a file without its suffix, and without that of gzip."""
    return _without_gzip(path).stem


def _without_gzip(path: str | Path) -> Path:
    path = Path(path)
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def open_bytes(path: str | Path) -> BinaryIO:
    """Open a file for reading bytes."""
    return open(_allowed(path), "rb")


def open_unpacked(path: str | Path) -> BinaryIO:
    """Open a file for reading bytes; if gzip has compressed it, those that it stands for."""
    file = open_bytes(path)
    packed = file.read(len(_GZIP)) == _GZIP
    file.seek(0)
    if not packed:
        return file
    with file:
        return io.BytesIO(_unpacked(file.read(), path))


def _unpacked(data: bytes, path: str | Path) -> bytes:
    """Decompress gzip data, up to the limit; raise an `OSError` if they are damaged."""
    from netsim.base.limits import check_limit, most  # which load NumPy

    unpacking, made = zlib.decompressobj(zlib.MAX_WBITS | 16), bytearray()
    limit = most("bytes")
    for at in range(0, len(data), _BLOCK):
        block = data[at:at + _BLOCK]
        try:
            made += unpacking.decompress(block, limit + 1 - len(made))
        except zlib.error as error:
            raise OSError(errno.EINVAL, f"damaged gzip, in bytes {at} to {at + len(block) - 1}: "
                                        f"{error}", os.fspath(path)) from error
        check_limit("bytes", len(made), Path(path), where="unpacked so far")
    if not unpacking.eof:
        raise OSError(errno.EINVAL, f"damaged gzip: it ends too early, after {len(data)} bytes",
                      os.fspath(path))
    return bytes(made)


def read_bytes(path: str | Path) -> bytes:
    """Read the bytes of a file."""
    with open_bytes(path) as file:
        return file.read()


def read_text(path: str | Path) -> str:
    r"""Read the text of a UTF-8 file, without a byte-order mark, and with ``\n`` as line ends."""
    with open_unpacked(path) as file:
        text = file.read().removeprefix(codecs.BOM_UTF8).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --- files that are written ----------------------------------------------------------------
@contextmanager
def atomic_write(path: str | Path, *, folders: bool = False, named: str | Path | None = None
                 ) -> Iterator[Path]:
    """Yield a temporary path whose file replaces `path` at the end, unless an error occurs.

    With `folders`, missing folders are made, and removed again if the file is not written. An
    `OutputError` names `named`, or else `path`; no partial file is left.
    """
    target = Path(path)
    # It has the suffix of the file, by which some writers choose the format.
    temporary = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    made = [parent for parent in target.parents if not parent.exists()] if folders else []
    try:
        try:
            if folders:
                target.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            os.replace(temporary, target)
        finally:
            with suppress(OSError):  # the folder may not exist
                temporary.unlink(missing_ok=True)
            for parent in made:
                with suppress(OSError):  # fails if the file was written, as the folder holds it
                    parent.rmdir()
    except (OSError, UnicodeEncodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"{named or path}: cannot be written: {reason}") from error


def write_text(text: str, path: str | Path) -> None:
    """Write a UTF-8 file atomically: under a temporary name that is then renamed."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


# --- the folder of compiled code -----------------------------------------------------------

def cache_folder() -> Path:
    """Return the folder of compiled code, whose name depends on the files of `COMPILED`."""
    import numba

    configured: Any = numba.config
    return Path(folder_below(configured.CACHE_DIR))


#: What is compiled, and what compiled code takes over, such as constants, or is made by.
#: `tests/test_cache.py` holds this against what kernels import.
COMPILED = (
    "base/compiling.py", "edge/kernels.py", "fabric/kernels/*.py", "fabric/records.py",
    "jobs/longest_path.py",
    "models/kernels.py", "placements/kernels.py", "schedulers/kernels.py", "ties.py")


@cache
def folder_below(base: str) -> str:
    """Return the cache folder below `base`, or below a default one if `base` is empty.

    Its name depends on the contents of all files of `COMPILED`, as kernels of one may be part of
    the compiled code of another.
    """
    here = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for pattern in COMPILED:
        for path in sorted(here.glob(pattern)):
            text = read_bytes(path)
            digest.update(f"{path.name} {len(text)} ".encode() + text)
    if not base:
        beside = here / "__pycache__"
        base = str(beside if os.access(beside if beside.exists() else here, os.W_OK)
                   else Path("~/.cache/netsim").expanduser())
    return str(Path(base) / f"netsim-{digest.hexdigest()[:12]}")
