"""A table of a run that is not a data frame yet: it becomes one when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.results.spill import SpillingTable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LazyTable", "chunks_of", "columns_of"]

#: How many rows are read, converted and written at once.
_CHUNK = 1 << 14


class LazyTable:
    """The rows of a table, in the order and with the columns that its data frame is to have.

    Parameters
    ----------
    rows : SpillingTable
        To which nothing is added any more.
    sort_by : sequence of str
        Columns, the most important one first. Rows that are equal keep their order.
    converted : mapping of str to callable
        What makes the data frame's columns of those of the rows, where they are not the same.
    beside : mapping of str to ndarray
        More columns, for tables that are not sorted.
    """

    def __init__(self, rows: SpillingTable, sort_by: Sequence[str] = (),
                 converted: Mapping[str, Callable[[NDArray[Any]], Any]] | None = None,
                 beside: Mapping[str, NDArray[Any]] | None = None) -> None:
        self._rows = rows
        self._converted = converted or {}
        self._beside = beside or {}
        self._order: NDArray[np.int64] | None = None
        self._sort_by = sort_by

    def frame(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the table, or some of its columns."""
        count = len(self._rows)
        columns = {name: np.empty(count, self._rows.dtype[name])
                   for name in names or self._rows.dtype.names or ()}
        for first in range(0, count, _CHUNK):
            rows = self._rows.take(self._places(first))
            for name, column in columns.items():
                column[first:first + _CHUNK] = rows[name]
        return self._framed(columns, {} if names else self._beside)

    def chunks(self) -> Iterator[pd.DataFrame]:
        """Go through the table, so many rows at a time; there is one chunk at least."""
        for first in range(0, max(len(self._rows), 1), _CHUNK):
            rows = self._rows.take(self._places(first))
            yield self._framed(
                {name: rows[name] for name in self._rows.dtype.names or ()},
                {name: column[first:first + _CHUNK] for name, column in self._beside.items()})

    def _places(self, first: int) -> slice | NDArray[np.int64]:
        if not self._sort_by:
            return slice(first, first + _CHUNK)
        if self._order is None:
            keys = LazyTable(self._rows).frame(self._sort_by)
            self._order = np.lexsort([keys[name].to_numpy() for name in reversed(self._sort_by)])
        return self._order[first:first + _CHUNK]

    def _framed(self, columns: Mapping[str, NDArray[Any]], beside: Mapping[str, NDArray[Any]]
                ) -> pd.DataFrame:
        import pandas as pd

        converted = {name: self._converted[name](column) if name in self._converted else column
                     for name, column in columns.items()}
        return pd.DataFrame({**converted, **beside}, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # The file is this process's; others, and copies, get the data frame.
        return _same, (self.frame(),)


def columns_of(table: pd.DataFrame | LazyTable | None, columns: Sequence[str]
               ) -> pd.DataFrame | None:
    """Return some columns of a table, without making a data frame of all."""
    return table.frame(columns) if isinstance(table, LazyTable) else table


def chunks_of(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Go through a data frame as `LazyTable.chunks` does."""
    for first in range(0, max(len(frame), 1), _CHUNK):
        yield frame.iloc[first:first + _CHUNK]


def _same(frame: pd.DataFrame) -> pd.DataFrame:
    return frame
