"""Results in folders: CSV, Parquet and JSON."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w

from netsim._version import __version__
from netsim.base.lazy import pd
from netsim.base.tables import check_pyarrow, write_csv, write_parquet
from netsim.base.values import as_choice
from netsim.errors import NetsimError, OutputError
from netsim.results.lazy_table import LazyTable, chunks_of
from netsim.results.summary import summarise

TABLES = ("jobs", "coflows", "flows", "links", "decisions", "computations", "gpus", "other_coflows",
          "chunks", "training", "held", "workers", "servers", "ps")

#: Functions that write the tables of runs, by the suffix of the files.
WRITERS = {"csv": write_csv, "parquet": write_parquet}

#: Tables that may be large, and that need not be read back.
LARGE = TABLES[2:6]

#: Files by which the finished results of a run, and of a comparison, are recognised.
MARKS = ("summary.json", "comparison.csv")

#: File name of the timeline of a run.
TRACE = "trace.json"

#: Longest name of a folder in bytes; file systems allow at most 255.
_LONGEST_NAME = 200

#: Files that a folder of results may hold: those of netsim, also of version 0.1.0, and plots.
_OURS = re.compile(r"spec\.toml|(summary|trace)\.json|report\.html|"
                   rf"(comparison|ratios|improvement)\.csv|({'|'.join(TABLES)})\.({'|'.join(WRITERS)})|.*\.(png|pdf|svg)")


class Records(NamedTuple):
    """The stored parts of a run."""

    #: By name; None for one that is not stored.
    tables: Mapping[str, pd.DataFrame | LazyTable | None]
    run: Mapping[str, Any]  #: the identity of the run; see `netsim.Result`
    spec: Mapping[str, Any] | None  #: the experiment of the run, if any


def check_format(format: str) -> None:
    """Check before a long run that tables can be written in a format, one of `WRITERS`."""
    if as_choice(format, "format of tables", WRITERS, "format") == "parquet":
        check_pyarrow()


def save_records(records: Records, folder: str | Path, format: str = "csv") -> Path:
    """Write a run to a folder that is new, empty or an earlier result, which it replaces.

    Nothing is left behind if the folder cannot be written, or holds other files.
    """
    check_format(format)
    with whole_folder(folder) as temporary:
        write_records(records, temporary, format)
    return Path(folder)


def save_comparison(tables: Mapping[str, pd.DataFrame], runs: Mapping[str, Records],
                    spec: Mapping[str, Any] | None, folder: str | Path, format: str = "csv"
                    ) -> Path:
    """Write several runs to one folder; see `netsim.Comparison.save`.

    Each of `tables`, among them ``comparison``, becomes a ``.csv`` file, and each run a folder
    named after its label, with tables in `format`.
    """
    check_format(format)
    with whole_folder(folder) as temporary:
        if spec is not None:
            _write_spec(spec, temporary)
        for name, records in zip(folder_names(runs), runs.values(), strict=True):
            path = temporary / name
            path.mkdir()
            write_records(records, path, format)
        for name, table in tables.items():
            _write_table(table, temporary / f"{name}.csv")
    return Path(folder)


def folder_names(labels: Iterable[str]) -> list[str]:
    """Make distinct names of folders for the runs of a comparison from their labels.

    >>> folder_names(["parrot", "lccf (work_conservation=none)", "lccf: work_conservation=none"])
    ['parrot', 'lccf-work_conservation=none', 'lccf-work_conservation=none-2']
    """
    names: list[str] = []
    # Names must also be distinct on file systems that ignore case.
    taken = {"spec.toml", "comparison.csv", "ratios.csv"}
    for label in labels:
        near = re.sub(r"[^\w.=+-]+", "-", label).strip("-.") or "run"
        near = near.encode("utf-8", "replace")[:_LONGEST_NAME].decode("utf-8", "ignore")
        free = (near if k == 1 else f"{near}-{k}" for k in itertools.count(1))
        names.append(next(name for name in free if name.casefold() not in taken))
        taken.add(names[-1].casefold())
    return names


def write_records(records: Records, folder: Path, format: str = "csv") -> None:
    """Write a run to an existing folder: ``summary.json``, and a file per table.

    The summary includes the identity of the run and the columns of the tables. If the run is of an
    experiment, ``spec.toml`` is written too. Floats read back exactly.
    """
    tables, run, spec = records
    if spec is not None:
        _write_spec(spec, folder)
    columns = {}
    for name, table in tables.items():
        if table is not None:
            _write_table(table, folder / f"{name}.{format}")
            head = next(chunks_of(table))
            columns[name] = {column: _kind(head[column]) for column in head}
    figures = summarise(tables["jobs"], tables["coflows"], tables["gpus"],  # type: ignore[arg-type]
                        run)
    summary = dict(run) | figures | {"tables": columns}
    text = json.dumps(_plain(summary), indent=2, allow_nan=False)
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")


def _write_spec(spec: Mapping[str, Any], folder: Path) -> None:
    """Write the experiment to ``spec.toml``."""
    text = f"# The experiment of these results, run by netsim {__version__}.\n"
    (folder / "spec.toml").write_text(text + tomli_w.dumps(spec), encoding="utf-8")


def _write_table(table: pd.DataFrame | LazyTable, path: Path) -> None:
    """Write a table to a file, in the format of its suffix."""
    WRITERS[path.suffix.removeprefix(".")](chunks_of(table), path)


def _kind(column: pd.Series) -> str | list[str]:
    """The type of a column for `load_result`: the name of a dtype, or the categories."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return list(column.cat.categories)
    return str(column.dtype) if column.dtype.kind in "iufb" else "str"


def _plain(value: Any) -> Any:
    """Convert a value for JSON: NaN and infinities to null, arrays to lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def check_writable(folder: str | Path) -> None:
    """Check before a long run that a folder can be written: new, empty, or an earlier result."""
    target = Path(os.path.realpath(folder))
    with naming(folder):
        if target.exists() and not target.is_dir():
            raise OutputError(f"{folder}: is a file, not a folder")
        if Path.cwd().is_relative_to(target):
            raise OutputError(f"{folder}: holds the current folder, which cannot be replaced")
        if target.is_dir() and (other := _foreign_file(target)):
            raise OutputError(f"{folder}: holds a file that is not a result of netsim, "
                              f"{other!r}; give a new folder, or empty this one")
        parent = target.parent
        while not parent.exists():
            parent = parent.parent
        os.rmdir(tempfile.mkdtemp(prefix=".netsim-", dir=parent))


@contextmanager
def whole_folder(folder: str | Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces `folder` at the end, unless an error occurs.

    An earlier result is moved aside until the new one is in its place.
    """
    check_writable(folder)
    target = Path(os.path.realpath(folder))
    temporary, aside = (target.with_name(f".{target.name}.{secrets.token_hex(4)}.{suffix}")
                        for suffix in ("new", "old"))
    parents = [parent for parent in target.parents if not parent.exists()]
    with naming(folder):
        try:
            temporary.mkdir(parents=True)
            yield temporary
            _replace(target, temporary, aside)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            for parent in parents:
                with suppress(OSError):  # not empty if the results were written
                    parent.rmdir()


def _replace(target: Path, new: Path, aside: Path) -> None:
    """Replace a folder by another; restore it if that fails."""
    if not target.exists():
        new.rename(target)
        return
    target.rename(aside)
    try:
        new.rename(target)
    except BaseException:
        aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _foreign_file(folder: Path) -> str:
    """The name of an entry that is not part of a result and would be lost; "" if there is none."""
    names = sorted(path.name for path in folder.iterdir())
    if names and not any(mark in names for mark in MARKS):
        return names[0]
    for path in map(folder.joinpath, names):
        if _foreign_file(path) if path.is_dir() else not _OURS.fullmatch(path.name):
            return path.name
    return ""


@contextmanager
def naming(folder: str | Path) -> Iterator[None]:
    """Turn errors of writing in this context into an `OutputError` that names the folder."""
    try:
        yield
    except NetsimError:
        raise
    except (OSError, UnicodeEncodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"{folder}: cannot be written: {reason}") from error
