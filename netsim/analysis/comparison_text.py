"""Text of a comparison: its tables, and notes on them."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from netsim.analysis.coflows import ALL, CLASSES
from netsim.text import visible
from netsim.units import decimals_for

if TYPE_CHECKING:
    import pandas as pd

#: Columns of texts by their headings.
Columns = Mapping[str, Sequence[str]]

#: A line of text, or a table with the number of leading columns that are text, not numbers.
Part = str | tuple[Columns, int]

_COLUMNS = {
    "total\nJCT (s)": "jct_total_s", "over\nbound": "over_lower_bound",
    "over\nbaseline": "over_baseline", "mean\nJCT (s)": "jct_mean_s", "p95\nJCT (s)": "jct_p95_s",
    "mean\nCCT (s)": "cct_mean_s", "makespan\n(s)": "makespan_s", "in\nuse": "utilisation",
    "pre-\nempted": "preemptions", "in the\ncloud": "cloud_share",
}

#: Formats of columns whose values need no common number of decimals.
_FORMATS = {"utilisation": "{:.1%}", "preemptions": "{:,.0f}", "cloud_share": "{:.1%}"}

#: Columns of the row of all classes that are shown next to the means by class.
_OF_ALL = {"all\np95": "cct_p95_ratio", "each CCT\n(geom.)": "cct_each_ratio",
           "total\nJCT": "jct_total_ratio"}

#: Least width of a text column, and the gap between two columns.
_LEAST, _GAP = 11, 2

#: Letters of a line of a heading, unless it is one word.
_HEADING = 12


def text_of(parts: Iterable[Part], width: int = 80) -> str:
    """Render parts of a comparison as text, one below the other.

    Long labels are broken to fit the width, unless the numbers alone exceed it.
    """
    file = io.StringIO()
    for part in parts:
        if isinstance(part, str):
            file.write(f"{part}\n")
        else:
            columns, texts = part
            figures = sum(_width(name, cells) + _GAP for name, cells in list(columns.items())[1:])
            console = Console(file=file, highlight=False, markup=False, emoji=False,
                              color_system=None, force_terminal=False, force_jupyter=False,
                              width=max(width, figures + _LEAST))
            print_columns(console, columns, texts)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def _width(heading: str, texts: Sequence[str]) -> int:
    """The width of a column in letters."""
    return max(map(len, [*heading.split("\n"), *texts]))


def parts_of(figures: pd.DataFrame, what: str, noted: bool = False, baseline: str | None = None,
             ratios: pd.DataFrame | None = None) -> Iterator[Part]:
    """Yield the tables of a comparison, and lines of text between them.

    `figures` is from `table_of`, `ratios` from `ratios_to`. `what` is the kind of policy compared,
    ``"scheduler"`` or ``"allocator"``. If `noted`, a table shows how each run allocates leftover
    bandwidth.
    """
    ratio = over(figures["label"].iloc[0] if baseline is None else baseline)
    yield {what: figures["label"].tolist()} | {
        ratio if key == "over_baseline" else heading: _cells(figures, key)
        for heading, key in _COLUMNS.items() if key in figures and figures[key].notna().any()}, 1
    if noted:
        yield from _sharing_parts(figures.iloc[:-1], what)
    if baseline is not None and ratios is not None:
        yield from _ratio_parts(ratios, baseline, what)
    jobs = figures["jobs_finished"].iloc[-1]  # the row of the bound counts all jobs
    for label, finished in zip(figures["label"], figures["jobs_finished"], strict=True):
        if finished < jobs:
            yield (f"{visible(label)}: only {finished:,} of {jobs:,} jobs finished; its figures "
                   "cover these")


def over(baseline: str) -> str:
    """Head a column of ratios to a baseline: ``over`` and the baseline's name, in short lines."""
    return "\n".join(["over", *textwrap.wrap(baseline, _HEADING, break_long_words=False,
                                             break_on_hyphens=False)])


def _sharing_parts(runs: pd.DataFrame, what: str) -> Iterator[Part]:
    """Yield a table on leftover bandwidth, which would be too wide as part of the other table."""
    yield ("\nRuns allocate leftover bandwidth in different ways, which explains part of the\n"
           "differences:\n")
    columns = {what: "label", "left over": "leftover", "decided per": "decides_per"}
    yield {heading: [value or "-" for value in runs[name]]
           for heading, name in columns.items()}, len(columns)
    yield ""


def _ratio_parts(ratios: pd.DataFrame, baseline: str, what: str) -> Iterator[Part]:
    """Yield the ratios of each class that has coflows, and those of all coflows."""
    means = ratios.pivot(index="label", columns="class", values="cct_mean_ratio")
    overall = ratios[ratios["class"] == ALL].set_index("label")
    shown = [name for name in (*CLASSES, ALL) if name in means and means[name].notna().any()]
    columns = {f"{name} mean".replace(" ", "\n"): means.loc[overall.index, name]
               for name in shown}
    columns |= {heading: overall[key] for heading, key in _OF_ALL.items()
                if overall[key].notna().any()}
    if not columns:
        return  # jobs have not finished, which a note says
    cells = {heading: [f"{value:,.3f}" if math.isfinite(value) else "-" for value in column]
             for heading, column in columns.items()}
    if overall["cct_shorter"].notna().any():
        cells["CCTs\nshorter:longer"] = [
            "-" if math.isnan(shorter) else f"{shorter:,.0f}:{longer:,.0f}" for shorter, longer
            in overall[["cct_shorter", "cct_longer"]].astype(float).to_numpy()]
    yield f"\nTimes over those of {visible(baseline)}; less than 1 is better:\n"
    yield {what: overall.index.tolist()} | cells, 1


def print_columns(console: Console, columns: Columns, texts: int = 1) -> None:
    """Print a table from its columns; the first ones are text, the others numbers."""
    table = Table(box=SIMPLE_HEAD if console.is_terminal else None, pad_edge=False,
                  padding=(0, 1 if console.is_terminal else _GAP, 0, 0))
    for index, heading in enumerate(columns):
        heading = visible(heading, lines=True)
        if index < texts:
            table.add_column(heading, vertical="bottom", overflow="fold")
        else:
            table.add_column(heading, justify="right", vertical="bottom", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*map(visible, row))
    console.print(table)


def _cells(figures: pd.DataFrame, key: str) -> list[str]:
    """Format a column of figures."""
    values = figures[key].astype(float).tolist()
    if key not in _FORMATS:
        return _aligned(values)
    return [_FORMATS[key].format(value) if math.isfinite(value) else "-" for value in values]


def _aligned(values: Sequence[float]) -> list[str]:
    """Format a column with the decimals that give its smallest value three significant digits."""
    decimals = decimals_for(values)
    return [f"{value:,.{decimals}f}" if math.isfinite(value) else "-" for value in values]
