"""Reading results from disk."""

from __future__ import annotations

import json
import reprlib
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.late import pd
from netsim.plain import known_names
from netsim.reading import read_text
from netsim.results.csv import read_csv
from netsim.results.parquet import read_parquet
from netsim.results.result import Result
from netsim.results.store import LARGE, TABLES
from netsim.results.summary import OF_RUN, summarise


@known_names
def load_result(folder: str | Path, *, tables: Collection[str] | None = None) -> Result:
    """Read a result that `Result.save` wrote.

    Parameters
    ----------
    folder : path-like
    tables : collection of str, optional
        Which of the tables ``"flows"``, ``"links"`` and ``"decisions"``, which may be large, to
        read if they were recorded. By default all of them.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        If the folder does not hold a result, or is damaged.
    """
    try:
        return _load(Path(folder), LARGE if tables is None else tables)
    except FileNotFoundError as error:
        raise InputError(f"{folder}: not a result: it has no {Path(error.filename).name}"
                         ) from error
    except OSError as error:
        raise InputError(f"{folder}: not a readable result: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
            RecursionError) as error:
        raise InputError(f"{folder}: not a readable result: {error}") from error


def _load(folder: Path, large: Collection[str]) -> Result:
    """Read a result without handling errors."""
    stored = json.loads(read_text(folder / "summary.json"))
    columns = stored.pop("tables")
    if stored.get("gpus", 1) < 1:
        raise ValueError(f"summary.json has {stored['gpus']} GPUs")
    tables = {name: _read_table(folder, name, columns[name])
              if name in columns and (name in large or name not in LARGE) else None
              for name in TABLES}
    summary = summarise(tables["jobs"], tables["coflows"],  # type: ignore[arg-type]
                        tables["gpus"], stored)
    run = {key: value for key, value in stored.items() if key in OF_RUN or key not in summary}
    return Result(**tables, run=run, spec=read_spec(folder))  # type: ignore[arg-type]


def read_spec(folder: Path) -> dict[str, Any] | None:
    """Read the experiment of the results in a folder, if there is one."""
    path = folder / "spec.toml"
    return tomllib.loads(read_text(path)) if path.exists() else None


def _read_table(folder: Path, name: str, columns: Mapping[str, str | list[str]]) -> pd.DataFrame:
    """Read a table with the given column types, from Parquet if present, otherwise from CSV."""
    path = folder / f"{name}.parquet"
    if path.exists():
        found = read_parquet(path)
    else:  # As text first: not all versions of pandas parse floats exactly.
        path = path.with_suffix(".csv")
        found = read_csv(path, dtype=str, keep_default_na=False)
    typed = _typed if path.suffix == ".parquet" else _parsed
    if found.columns.tolist() != list(columns):
        raise ValueError(f"{path.name} has the columns {found.columns.tolist()}, not "
                         f"{list(columns)}")
    return pd.DataFrame({name: typed(found[name], kind) for name, kind in columns.items()})


def _typed(column: pd.Series, kind: str | list[str]) -> Any:
    """Check the values of a Parquet column and convert them to their type."""
    if kind == "str":
        return column.fillna("")
    if isinstance(kind, list):
        return pd.Categorical(_one_of(kind, column), categories=kind)
    return column.to_numpy().astype(kind)


def _parsed(column: pd.Series, kind: str | list[str]) -> Any:
    """Convert a column of texts to its type."""
    if kind == "str":
        return column
    if kind == "bool":
        return _one_of(["True", "False"], column) == "True"
    if isinstance(kind, list):
        return pd.Categorical(_one_of(kind, column), categories=kind)
    return np.array([each or "nan" for each in column], dtype=object).astype(kind)


def _one_of(allowed: list[str], text: pd.Series) -> pd.Series:
    """Check that all texts are among the allowed ones."""
    others = text[~text.isin(allowed)]
    if len(others):
        raise ValueError(f"column {text.name!r} holds {others.iloc[0]!r}, which is not one of "
                         f"{reprlib.repr(allowed)}")
    return text
