"""Compiled kernels on disk; a damaged file is compiled and written again."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    UserProvidedCacheLocator,
)

from netsim.errors import NetsimWarning


class _CheckedFile(IndexDataCacheFile):
    """The files of one kernel, each with a digest at its end, which unpickling passes over.

    Damaged files are as good as missing ones. Without a digest they might be loaded: machine code
    may be anything.
    """

    def _load_index(self) -> Any:
        try:
            _check(self._index_path)
        except OSError:
            return {}
        return super()._load_index()

    def _load_data(self, name: str) -> Any:
        _check(self._data_path(name))  # Numba takes an OSError for a file that is not there
        return super()._load_data(name)

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        with super()._open_for_write(filepath) as file:
            written = io.BytesIO()
            yield written
            data = written.getvalue()
            file.write(data + _digest(data))


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _check(path: str) -> None:
    """Raise an OSError if a file is damaged, or cannot be read."""
    data = Path(path).read_bytes()
    size = hashlib.sha256().digest_size
    if _digest(data[:-size]) != data[-size:]:
        raise OSError(f"{path} is damaged")


class InOwnFolder(CompileResultCacheImpl):
    """Keeps compiled code in the folder of this version of netsim, or nowhere."""

    _locator_classes = [UserProvidedCacheLocator]  # noqa: RUF012 - as Numba declares it


class KernelCache(FunctionCache):
    """The cache of one kernel; what cannot be written is compiled again in the next process."""

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        self._cache_file = _CheckedFile(self._cache_path, self._impl.filename_base,
                                        self._impl.locator.get_source_stamp())

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a kernel if possible."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            file = str(error.filename2 or error.filename or self.cache_path)
            place = self.cache_path, error.strerror
            if place not in _told:
                _told.add(place)
                warnings.warn(NetsimWarning(
                    f"a compiled kernel cannot be stored in {file.partition('.tmp.')[0]}: "
                    f"{error.strerror or error}; each process compiles it again, unless "
                    "NUMBA_CACHE_DIR names another folder"), stacklevel=2)


#: Folders and reasons that have been reported: on a full disk, many kernels share them.
_told: set[tuple[str, str | None]] = set()


@cache
def tell_not_kept(folder: str) -> None:
    """Warn, once, that no compiled kernels can be stored, as a folder cannot be written."""
    warnings.warn(NetsimWarning(
        f"compiled kernels cannot be stored in {folder}; each process compiles them again, which "
        "takes about 20 s, unless NUMBA_CACHE_DIR names another folder"), stacklevel=2)
