"""Loading of results from folders of runs, comparisons and sweeps."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from netsim.analysis.comparison import LOWER_BOUND
from netsim.errors import InputError
from netsim.plain import known_names
from netsim.results.csv import read_csv
from netsim.results.load import load_result, read_spec
from netsim.results.store import folder_names
from netsim.studies.compare import Comparison
from netsim.studies.sweep_result import load_sweep


@known_names
def load_comparison(folder: str | Path, *, tables: Collection[str] | None = None) -> Comparison:
    """Load a comparison that `netsim.Comparison.save` wrote.

    Parameters
    ----------
    folder : path-like
    tables : collection of str, optional
        As for `netsim.load_result`.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If the folder is not a comparison, or is damaged.
    """
    path = Path(folder)
    try:
        labels = _labels(path / "comparison.csv")
        ratios = path / "ratios.csv"
        # Ratios have no rows for the baseline.
        others = _labels(ratios) if ratios.is_file() else labels
        baseline = next((label for label in labels if label not in others), None)
        spec = read_spec(path)
    except FileNotFoundError as error:
        raise InputError(f"{folder}: not a comparison: it has no comparison.csv") from error
    except (OSError, ValueError, LookupError) as error:
        raise InputError(f"{folder}: not a readable comparison: {error}") from error
    if not labels:
        raise InputError(f"{folder}: not a readable comparison: comparison.csv has no runs")
    results = {label: load_result(path / name, tables=tables)
               for label, name in zip(labels, folder_names(labels), strict=True)}
    return Comparison(results, spec, baseline)


def _labels(path: Path) -> list[str]:
    """The distinct labels in a table of a comparison, without that of the bound."""
    table = read_csv(path, dtype=str, keep_default_na=False)
    if "label" not in table:
        raise InputError(f"{path.name} has no column 'label'")
    return [label for label in dict.fromkeys(table["label"]) if label != LOWER_BOUND]


#: By the file that marks a folder: the kind of its results, as in `netsim.plots.pictures.PICTURES`,
#: and the function that loads them. The first file found decides.
KINDS: dict[str, tuple[str, Callable[..., Any]]] = {
    "summary.json": ("run", load_result),
    "comparison.csv": ("comparison", load_comparison),
    "sweep.json": ("sweep", lambda folder, tables: load_sweep(folder)),
}


def kind_of_folder(folder: str | Path) -> str:
    """The kind of the results in a folder: ``"run"``, ``"comparison"`` or ``"sweep"``."""
    return KINDS[_mark(folder)][0]


def load_folder(folder: str | Path, *, tables: Collection[str] | None = None) -> Any:
    """Load the results in a folder: a `netsim.Result`, `netsim.Comparison` or `netsim.Sweep`."""
    return KINDS[_mark(folder)][1](folder, tables=tables)


def _mark(folder: str | Path) -> str:
    """The name of the file that marks a folder as a run, a comparison or a sweep."""
    path = Path(folder)
    if not path.is_dir():
        raise InputError(f"{folder}: is a file, not a folder of results" if path.exists() else
                         f"{folder}: no such folder")
    for mark in KINDS:
        if (path / mark).exists() and not (path / mark).is_dir():
            return mark
    raise InputError(f"{folder}: holds no results: it has none of {', '.join(KINDS)}")
