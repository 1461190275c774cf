"""Tables that grow: arrays in memory, moved to disk when they become large."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import OutputError

__all__ = ["SpilledNotes", "SpillingTable"]

#: Largest number of bytes of a table in memory; beyond it, rows are moved to a file.
MOST_BYTES = 32 * 2**20


class SpillingTable:
    """A table that grows by arrays of rows; only the most recent rows are kept in memory.

    The others are in a file without a name, which disappears with this object.

    Parameters
    ----------
    dtype : dtype
        Structured dtype of rows, without padding.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._recent: list[NDArray[Any]] = []
        self._recent_bytes = 0
        self._on_disk = 0
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._on_disk + sum(map(len, self._recent))

    def extend(self, rows: NDArray[Any]) -> None:
        """Append rows, which must not be changed afterwards.

        Raises
        ------
        OutputError
            If there is no room for them on disk.
        """
        self._recent.append(rows)
        self._recent_bytes += rows.nbytes
        if self._recent_bytes > MOST_BYTES:
            self._write()

    def _write(self) -> None:
        """Move all rows in memory to the file."""
        try:
            if self._file is None:
                with ExitStack() as stack:
                    self._file = stack.enter_context(tempfile.TemporaryFile(prefix="netsim-"))
                    weakref.finalize(self, stack.pop_all().close)
            for rows in self._recent:
                self._file.write(np.ascontiguousarray(rows).view(np.uint8).data)
            self._file.flush()
        except OSError as error:
            raise OutputError(f"{tempfile.gettempdir()}: the tables of this run cannot be kept "
                              f"there: {error.strerror}; set TMPDIR to a folder with more room, "
                              "or record less") from error
        self._on_disk = len(self)
        self._recent, self._recent_bytes = [], 0

    def take(self, which: slice | NDArray[np.int64]) -> NDArray[Any]:
        """Return rows by their indices, or by a slice of step 1.

        Take a limited number at a time, as the file is mapped into memory meanwhile.
        """
        if self._file is not None and self._recent:
            self._write()
        if self._file is None:
            if len(self._recent) != 1:
                self._recent = [self._joined()]
            return self._recent[0][which]
        rows = np.memmap(self._file, self.dtype, "r", shape=(self._on_disk,))
        return np.array(rows[which])

    def _joined(self) -> NDArray[Any]:
        # np.concatenate would be slow, as it promotes the structured dtypes of all arrays.
        """Return all rows in memory as one array."""
        joined = np.empty(len(self), self.dtype)
        first = 0
        for rows in self._recent:
            joined[first:first + len(rows)] = rows
            first += len(rows)
        return joined


class SpilledNotes:
    """Notes of policies as columns, one per key that occurs, NaN in notes without that key."""

    def __init__(self) -> None:
        self._columns: dict[str, list[NDArray[Any]]] = {}
        self._count = 0

    def extend(self, notes: Sequence[Mapping[str, float]]) -> None:
        """Append notes."""
        for key in {key: None for note in notes for key in note}:
            if key not in self._columns:
                self._columns[key] = [np.full(self._count, np.nan)] if self._count else []
        for key, parts in self._columns.items():
            parts.append(np.array([note.get(key, np.nan) for note in notes]))
        self._count += len(notes)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns by key, in order of first occurrence."""
        return {key: np.concatenate(parts) for key, parts in self._columns.items()}
