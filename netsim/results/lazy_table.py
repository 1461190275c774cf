"""Tables of a run, which become data frames when asked for, and go to disk when they are large."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Ints
from netsim.base.lazy import pd
from netsim.errors import OutputError

# --- rows that grow ------------------------------------------------------------------------

#: Largest number of bytes of a table in memory; beyond it, rows are moved to a file.
MOST_BYTES = 32 * 2**20


class _File:
    """A file without a name that holds rows of a table; it disappears with this object."""

    def __init__(self) -> None:
        self.rows = 0
        with ExitStack() as stack:
            self._file = stack.enter_context(tempfile.TemporaryFile(prefix="netsim-"))
            weakref.finalize(self, stack.pop_all().close)

    def append(self, parts: Sequence[NDArray[Any]]) -> None:
        for rows in parts:
            self._file.write(np.ascontiguousarray(rows).view(np.uint8).data)
        self._file.flush()
        self.rows += sum(map(len, parts))

    def mapped(self, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        """Return the first rows, mapped into memory."""
        return np.memmap(self._file, dtype, "r", shape=(count,))


class SpillingTable:
    """A table that grows by arrays of rows; only the most recent rows are kept in memory.

    Older rows are in files without a name, which disappear with the last table that needs them. A
    copy of a table shares the files written before it was made.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype  #: structured, without padding
        self._recent: list[NDArray[Any]] = []
        self._recent_bytes = 0
        self._written: list[tuple[_File, int]] = []  # with the number of rows that are this one's
        self._own: _File | None = None

    def __copy__(self) -> SpillingTable:
        other = SpillingTable(self.dtype)
        other._recent, other._recent_bytes = self._recent.copy(), self._recent_bytes
        other._written = self._written.copy()
        return other

    def __deepcopy__(self, _: dict[int, Any]) -> SpillingTable:
        return self.__copy__()

    @property
    def _on_disk(self) -> int:
        return sum(count for _, count in self._written)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._on_disk + sum(map(len, self._recent))

    def extend(self, rows: NDArray[Any]) -> None:
        """Append rows, which must not be changed afterwards."""
        self._recent.append(rows)
        self._recent_bytes += rows.nbytes
        if self._recent_bytes > MOST_BYTES:
            self._write()

    def _write(self) -> None:
        """Move all rows in memory to the file."""
        try:
            if self._own is None:
                self._own = _File()
                self._written.append((self._own, 0))
            self._own.append(self._recent)
        except OSError as error:
            raise OutputError(f"{tempfile.gettempdir()}: the tables of this run cannot be kept "
                              f"there: {error.strerror}; set TMPDIR to a folder with more room, "
                              "or record less") from error
        self._written[-1] = self._own, self._own.rows
        self._recent, self._recent_bytes = [], 0

    def take(self, which: slice | Ints) -> NDArray[Any]:
        """Return rows by their indices, or by a slice of step 1.

        Take a limited number of rows at a time, because files are mapped into memory meanwhile.
        """
        if len(self._recent) > 1:
            self._recent = [self._joined()]
        parts = [*(file.mapped(self.dtype, count) for file, count in self._written), *self._recent]
        if len(parts) == 1:
            return np.array(parts[0][which])
        places = np.arange(len(self))[which] if isinstance(which, slice) else which
        rows, first = np.empty(len(places), self.dtype), 0
        for part in parts:
            own = (first <= places) & (places < first + len(part))
            rows[own] = part[places[own] - first]
            first += len(part)
        return rows

    def _joined(self) -> NDArray[Any]:
        """Join all rows in memory into one array."""
        # np.concatenate would be slow, as it promotes the structured dtypes of all arrays.
        joined = np.empty(sum(map(len, self._recent)), self.dtype)
        first = 0
        for rows in self._recent:
            joined[first:first + len(rows)] = rows
            first += len(rows)
        return joined


class SpilledNotes:
    """Notes of policies as columns: one per key that occurs, with NaN for notes without the key."""

    def __init__(self) -> None:
        self._columns: dict[str, list[NDArray[Any]]] = {}
        self._count = 0

    def __deepcopy__(self, _: dict[int, Any]) -> SpilledNotes:
        other = SpilledNotes()
        other._columns = {key: parts.copy() for key, parts in self._columns.items()}
        other._count = self._count
        return other

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


# --- data frames when asked for ------------------------------------------------------------

#: Columns by name: a mapping of them, or a structured array.
Columns = Mapping[str, NDArray[Any]] | NDArray[Any]

#: Number of rows that are read, converted and written at once.
_CHUNK = 1 << 14


class FrameColumns:
    """Columns that become a data frame when asked for; most runs of a script need no pandas."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        # Copied, as the run may go on.
        self._columns = {name: np.array(each) if isinstance(each, np.ndarray) else each
                         for name, each in columns.items()}

    def frame(self) -> pd.DataFrame:
        """Make the data frame."""
        return pd.DataFrame(self._columns)


class LazyTable:
    """Rows of a table, with the order and columns that its data frame will have.

    No rows may be added any more. `sort_by` has the columns to sort by, the most important first;
    equal rows keep their order. `converted` has a function for each column whose data differ from
    those of the rows; `beside`, further columns of tables that are not sorted; and `derived`,
    functions of all columns of the rows that make the last columns.
    """

    def __init__(self, rows: SpillingTable, sort_by: Sequence[str] = (),
                 converted: Mapping[str, Callable[[NDArray[Any]], Any]] | None = None,
                 beside: Mapping[str, NDArray[Any]] | None = None,
                 derived: Mapping[str, Callable[[Columns], Any]] | None = None) -> None:
        self._rows = rows
        self._derived = derived or {}
        self._converted = converted or {}
        self._beside = beside or {}
        self._order: Ints | None = None
        self._sort_by = sort_by

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the rows."""
        return self._rows.dtype.names or ()

    def frame(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the table, or some of its columns, as a data frame."""
        count = len(self._rows)
        columns = {name: np.empty(count, self._rows.dtype[name])
                   for name in names or self._rows.dtype.names or ()}
        for first in range(0, count, _CHUNK):
            rows = self._rows.take(self._places(first))
            for name, column in columns.items():
                column[first:first + _CHUNK] = rows[name]
        return self._framed(columns, {} if names else {**self._beside, **self._made_of(columns)})

    def chunks(self) -> Iterator[pd.DataFrame]:
        """Yield the table in data frames of limited length, at least one."""
        for first in range(0, max(len(self._rows), 1), _CHUNK):
            rows = self._rows.take(self._places(first))
            yield self._framed(
                {name: rows[name] for name in self._rows.dtype.names or ()},
                {name: column[first:first + _CHUNK] for name, column in self._beside.items()}
                | self._made_of(rows))

    def _made_of(self, columns: Columns) -> dict[str, Any]:
        """Make the derived columns."""
        return {name: made(columns) for name, made in self._derived.items()}

    def _places(self, first: int) -> slice | Ints:
        """The rows of a chunk, in the order of the table."""
        if not self._sort_by:
            return slice(first, first + _CHUNK)
        if self._order is None:
            keys = LazyTable(self._rows).frame(self._sort_by)
            self._order = np.lexsort([keys[name].to_numpy() for name in reversed(self._sort_by)])
        return self._order[first:first + _CHUNK]

    def _framed(self, columns: Mapping[str, NDArray[Any]], beside: Mapping[str, NDArray[Any]]
                ) -> pd.DataFrame:
        """Convert columns and build a data frame."""
        converted = {name: self._converted[name](column) if name in self._converted else column
                     for name, column in columns.items()}
        return pd.DataFrame({**converted, **beside}, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # The file belongs to this process: others, and copies, get the data frame.
        return _same, (self.frame(),)


def columns_of(table: pd.DataFrame | LazyTable | None, columns: Sequence[str]
               ) -> pd.DataFrame | None:
    """Return those of the given columns that a table has; a lazy table builds only these."""
    if not isinstance(table, LazyTable):
        return table
    return table.frame([name for name in columns if name in table.names])


def chunks_of(table: pd.DataFrame | LazyTable | None) -> Iterator[pd.DataFrame]:
    """Yield a table in parts, as `LazyTable.chunks` does; nothing if there is no table."""
    if isinstance(table, LazyTable):
        yield from table.chunks()
    elif table is not None:
        for first in range(0, max(len(table), 1), _CHUNK):
            yield table.iloc[first:first + _CHUNK]


def _same(frame: pd.DataFrame) -> pd.DataFrame:
    return frame
