"""Tables of a run that become data frames only when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.results.spill import SpillingTable

if TYPE_CHECKING:
    import pandas as pd

#: Columns by name: a mapping of them, or a structured array.
Columns = Mapping[str, NDArray[Any]] | NDArray[Any]

#: Number of rows that are read, converted and written at once.
_CHUNK = 1 << 14


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
        self._order: NDArray[np.int64] | None = None
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

    def _places(self, first: int) -> slice | NDArray[np.int64]:
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
        import pandas as pd

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


def chunks_of(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield a data frame in parts, as `LazyTable.chunks` does."""
    for first in range(0, max(len(frame), 1), _CHUNK):
        yield frame.iloc[first:first + _CHUNK]


def _same(frame: pd.DataFrame) -> pd.DataFrame:
    return frame
