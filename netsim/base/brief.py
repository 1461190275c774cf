"""Short representations of objects of any size, for use as ``__repr__`` and in notebooks."""

from __future__ import annotations

import dataclasses
import reprlib
from html import escape
from typing import Any

from netsim.base.units import format_aligned, format_count
from netsim.text import named

#: The longest text of a field, and the number of items of a list that are shown.
_LETTERS, _EACH = 60, 3


#: The largest numbers of rows and columns of a table.
MOST_ROWS, _MOST_COLUMNS = 12, 10


class _Short(reprlib.Repr):
    """Abbreviates long values, and shows arrays and tables by their size."""

    def __init__(self) -> None:
        super().__init__()
        self.maxtuple = self.maxlist = self.maxarray = self.maxset = self.maxdict = _EACH
        self.maxstring = self.maxother = self.maxlong = _LETTERS
        self.maxlevel = 3

    def repr_ndarray(self, array: Any, level: int) -> str:
        """Show the values of a short array, and the shape of a longer one."""
        if array.size <= _EACH:
            return f"array({array.tolist()})"
        return f"<array of {' x '.join(f'{length:,}' for length in array.shape)}>"

    def repr_DataFrame(self, table: Any, level: int) -> str:
        """Show the size of a table."""
        return f"<table of {format_count(len(table), 'row')}>"


def brief(thing: Any) -> str:
    """Represent a dataclass as the call that makes it, with long fields abbreviated.

    >>> from netsim.workload.job import Stage
    >>> brief(Stage("all", [(0, rank, 1e6) for rank in range(1, 100)]).flows)
    'Flows(src=<array of 99>, dst=<array of 99>, nbytes=<array of 99>, ranks=100)'
    """
    shown = ((each.name, getattr(thing, each.name)) for each in dataclasses.fields(thing)
             if each.repr)
    fields = ", ".join(f"{name}={_SHORT.repr(value)}" for name, value in shown)
    return f"{type(thing).__qualname__}({fields})"


def shown(text: str, columns: Any, total: int | None = None) -> str:
    """Make HTML of a text, and the first rows of a table, with labels shortened by `named`.

    Columns without any value are left out. `total` is the number of all rows, if `columns` has only
    the first ones.
    """
    import pandas as pd  # takes as long to import as all of netsim

    table = pd.DataFrame(columns)
    total = len(table) if total is None else total
    table = table.dropna(axis="columns", how="all").iloc[:MOST_ROWS, :_MOST_COLUMNS]
    more = f"<p>the first {len(table):,} of {total:,} rows</p>" if total > len(table) else ""
    texts = table.assign(**{str(name): format_aligned(table[name]) for name in table
                            if table[name].dtype.kind == "f"})
    body = texts.to_html(index=False, border=0, na_rep="")
    return named(f"<p><code>{escape(text)}</code></p>\n{body}\n{more}")


_SHORT = _Short()
