"""Print the SHA-256 of every result table of all shipped experiments and worked cases.

The bytes are the raw ones of the columns, unrounded: what moves code and means to change no
behaviour must leave this list as it was. Digests are of one machine and one set of libraries.

``python tests/bench/bytes.py > before``, and after the change ``python tests/bench/bytes.py
--against before``, which prints the rows that differ and fails if there are any. Worked cases are
those of ``tests/golden``, with the folder that ``NETSIM_GOLDEN`` names.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest

import netsim

GOLDEN = Path(__file__).parents[1] / "golden"
WORKLOADS = Path(__file__).parents[2] / "workloads"

#: New names of columns, to those under which their digests count.
RENAMED: dict[str, str] = {}

#: Tables of a result.
TABLES = ("jobs", "coflows", "flows", "links", "decisions", "gpus", "chunks", "training", "workers",
          "servers", "ps")

#: What an experiment records besides what its file says.
RECORD = ["jobs", "coflows", "flows", "decisions"]


@click.command()
@click.option("--against", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="A list to compare with: print what differs.")
def main(against: Path | None) -> None:
    """Print a digest per table, or those that differ from a list."""
    before = None if against is None else against.read_text().splitlines()
    rows = []
    for row in [*of_experiments(), *of_worked_cases()]:
        rows.append(row)
        if before is None:
            print(row, flush=True)
    if before is not None:
        gone, new = set(before) - set(rows), set(rows) - set(before)
        for sign, row in sorted([*(("-", row) for row in gone), *(("+", row) for row in new)],
                                key=lambda each: each[1].split(maxsplit=1)[1]):
            print(sign, row)
        print(f"{len(rows)} tables, {len(new)} differ", file=sys.stderr)
        sys.exit(bool(gone or new))


def of_experiments() -> Iterator[str]:
    """Run the shipped experiments, each with all of the tables that it can record."""
    for name in experiments():
        experiment = netsim.load_experiment(name)
        options = experiment.model_dump()
        if options.get("edge_cloud") is None and experiment.execution in (None, "fabric"):
            experiment = experiment.model_copy(update={"record": RECORD})
        yield from rows_of(name, netsim.run(experiment))


def experiments() -> list[str]:
    """Return the names of the shipped experiments."""
    kinds = {"network", "cluster", "edge_cloud"}
    return sorted(path.stem for path in WORKLOADS.glob("*.toml")
                  if kinds & tomllib.loads(path.read_text()).keys())


def of_worked_cases() -> list[str]:
    """Run the tests of worked cases, and look at each result that they simulate."""
    rows: list[str] = []
    watch = _Watch(rows)
    netsim.simulate = watch.watched(netsim.simulate)
    with contextlib.redirect_stdout(sys.stderr):
        code = pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", str(GOLDEN)],
                           plugins=[watch])
    if code:
        sys.exit(f"the tests of worked cases fail: pytest says {code}")
    return rows


class _Watch:
    """Lists the digests of what each test simulates, in the order of its calls."""

    def __init__(self, rows: list[str]) -> None:
        self._rows = rows
        self._test, self._calls = "", 0

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._test, self._calls = item.nodeid.replace(" ", "_"), 0

    def watched(self, simulate: Callable[..., Any]) -> Callable[..., Any]:
        """Return `simulate`, with a note of each result."""
        def and_note(*args: Any, **options: Any) -> Any:
            result = simulate(*args, **options)
            self._calls += 1
            self._rows += rows_of(f"{self._test}#{self._calls}", result)
            return result
        return and_note


def rows_of(what: str, result: Any) -> list[str]:
    """Return a line per table of a result: its digest, and what it is of."""
    found = [(table, getattr(result, table)) for table in TABLES if has(result, table)]
    return [f"{digest(frame)} {what} {table}" for table, frame in found if frame is not None]


def has(result: Any, table: str) -> bool:
    """Return whether a result has recorded a table; some tables are errors where not."""
    try:
        return getattr(result, table, None) is not None
    except netsim.NetsimError:
        return False


def digest(frame: pd.DataFrame) -> str:
    """Return the SHA-256 of a table: of each column's name, kind and bytes, in order of names."""
    found = hashlib.sha256()
    columns = {RENAMED.get(name, name): frame[name].to_numpy() for name in frame.columns}
    for name in sorted(columns):
        values = columns[name]
        numbers = values.dtype.kind in "iufb"
        data = (np.ascontiguousarray(values).tobytes() if numbers
                else "\0".join(map(str, values.tolist())).encode())
        found.update(f"{name}:{values.dtype.kind if numbers else 'text'}:".encode() + data)
    return found.hexdigest()


if __name__ == "__main__":
    main()
