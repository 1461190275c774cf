"""Measured runs that are kept with the project, in a small table per setting, for its pages."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from netsim._version import __version__
from netsim.analysis.intervals import of_whole_runs
from netsim.reading import open_text
from netsim.traces.files import write_text

_FOLDER = Path(__file__).with_name("measured")

_DIGITS = 7


def has_measured(name: str) -> bool:
    """Whether runs of a setting are kept."""
    return _path(name).is_file()


def read_measured(name: str) -> pd.DataFrame:
    """Read the kept runs of a setting; empty if there are none.

    A row has the varied settings, the seed, metrics, which are NaN for runs that were stopped,
    ``cpu_s``, ``trace`` and ``version`` of netsim.
    """
    if not has_measured(name):
        return pd.DataFrame()
    with open_text(_path(name)) as file:
        return pd.read_csv(file, keep_default_na=False, na_values=["NaN"])


def keep_measured(name: str, table: pd.DataFrame, columns: Sequence[str],
                  metrics: Iterable[str], trace: str) -> Path:
    """Replace the kept runs of a setting by the varied columns and metrics of a table.

    ``wall_s`` of the table becomes ``cpu_s``, so each run must have had a core of its own. `trace`
    is empty if jobs were drawn.
    """
    kept = table[[*columns, "seed"]].copy()
    for metric in metrics:
        whole = of_whole_runs(table, metric) if "jobs_finished" in table else table[metric]
        kept[metric] = whole.map(f"{{:.{_DIGITS}g}}".format).astype(float)
    kept["cpu_s"], kept["trace"], kept["version"] = table["wall_s"].round(3), trace, __version__
    text = io.StringIO()
    kept.to_csv(text, index=False, lineterminator="\n", na_rep="NaN")
    write_text(text.getvalue(), _path(name))
    return _path(name)


def _path(name: str) -> Path:
    return _FOLDER / f"{name}.csv"
