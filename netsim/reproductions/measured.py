"""Runs once measured, kept with the project: a small table a setting, from which pages are made."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from netsim._version import __version__
from netsim.analysis.intervals import of_whole_runs
from netsim.reading import open_text
from netsim.traces.files import write_text

__all__ = ["has_measured", "keep_measured", "read_measured"]

_FOLDER = Path(__file__).with_name("measured")

_DIGITS = 7


def has_measured(name: str) -> bool:
    """Whether runs of a setting are kept."""
    return _path(name).is_file()


def read_measured(name: str) -> pd.DataFrame:
    """Return the kept runs of a setting; empty if there are none.

    Returns
    -------
    DataFrame
        A row per run: the varied settings, seed, metrics, ``cpu_s``, ``trace`` and ``version`` of
        netsim.
        Metrics of runs that were stopped are NaN.
    """
    if not has_measured(name):
        return pd.DataFrame()
    with open_text(_path(name)) as file:
        return pd.read_csv(file, keep_default_na=False, na_values=["NaN"])


def keep_measured(name: str, table: pd.DataFrame, columns: Sequence[str],
                  metrics: Iterable[str], trace: str) -> Path:
    """Replace the kept runs of a setting.

    Parameters
    ----------
    name : str
        Name of the reproduction.
    table : DataFrame
        A row per run, with ``wall_s``; on a core of its own, that is its CPU time.
    columns : sequence of str
        The varied settings.
    metrics : iterable of str
        The metrics to keep.
    trace : str
        Name of the trace; empty if jobs were drawn, or there is none.
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
