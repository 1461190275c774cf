"""Tables of reproductions in pages, between two comments that name the table."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from netsim.errors import InputError
from netsim.reading import read_text
from netsim.traces.files import write_text

#: Columns of counts. Errors and shares are percentages, other numbers have three digits or more.
_COUNTS = ("points", "flows", "scenarios", "senders", "gbps", "MB", "oversubscription")

_BLOCK = ("<!-- {name} {table}: written by netsim reproduce --page -->\n", "<!-- end -->")


def fill_page(path: str | Path, name: str, tables: Mapping[str, pd.DataFrame]) -> None:
    """Write tables of a reproduction, by name, into a page in Markdown.

    It is an InputError if the page has no place for any of the tables.
    """
    try:
        page = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the page cannot be read: {error}") from error
    done = filled(page, name, tables)
    if done is None:
        first, last = _BLOCK
        raise InputError(
            f"{path}: the page has no place for a table of {name}: two lines such as\n"
            f"{first.format(name=name, table=next(iter(tables)))}{last}\n"
            f"its tables are: {', '.join(tables)}")
    write_text(done, path)


def filled(page: str, name: str, tables: Mapping[str, pd.DataFrame]) -> str | None:
    """Put the tables of a reproduction in their places in the text of a page; None if it has none.

    A place is two lines: ``<!-- mine errors: written by netsim reproduce --page -->`` and ``<!--
    end -->``, for the table ``errors`` of ``mine``.
    """
    found = False
    for table, rows in tables.items():
        first, last = (part.format(name=name, table=table) for part in _BLOCK)
        place = re.compile(f"{re.escape(first)}.*?{re.escape(last)}", re.DOTALL)
        text = f"{first}{markdown(rows)}{last}"
        page, count = place.subn(text.replace("\\", r"\\"), page)
        found |= count > 0
    return page if found else None


def markdown(table: pd.DataFrame) -> str:
    """Write a table in Markdown, with numbers rounded according to the names of their columns."""
    lines = [f"| {' | '.join(map(str, table.columns))} |", "|---" * table.shape[1] + "|"]
    for row in table.itertuples(index=False):
        cells = (_cell(name, value) for name, value in zip(table.columns, row, strict=True))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(column: str, value: object) -> str:
    if isinstance(value, str):
        return value.replace("|", "\\|")
    number = float(value)  # type: ignore[arg-type]
    if math.isnan(number):
        return "-"
    if column in _COUNTS:
        return f"{number:,.0f}"
    if "error" in column or "resent" in column:
        return f"{number:.1%}".replace("%", " %")
    digits = 0 if abs(number) >= 1e3 else 1 if abs(number) >= 10 else 3
    return f"{number:,.{digits}f}" if abs(number) >= 0.01 else f"{number:.4g}"
