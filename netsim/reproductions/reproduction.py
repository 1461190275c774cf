"""A reproduction: a sweep or another table, the claims about it, and a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pandas as pd

from netsim.errors import InputError
from netsim.experiment_file.load import Draft
from netsim.experiment_file.values import seeds_of
from netsim.plots.style import new_figure
from netsim.reproductions.claims import Claim, Runs, column_of, table_of_claims
from netsim.results.result import Result
from netsim.simulation.progress import show_runs
from netsim.studies.run_store import RunStore
from netsim.studies.sweep import sweep_experiment
from netsim.studies.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: A thing that a panel shows.
Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class Reproduced:
    """The outcome of a reproduction."""

    table: pd.DataFrame  #: data that claims are checked against: for a sweep, a row per run
    claims: pd.DataFrame  #: see `netsim.reproductions.claims.table_of_claims`
    draw: Callable[[], Axes]
    sweep: Sweep | None = None
    #: For a page besides that of the claims, by name; see `netsim.reproductions.drawings`.
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class Reproduction:
    """A figure of a paper that a sweep reproduces."""

    name: str  #: such as ``"parrot-fig5"``
    title: str  #: one line: the paper's figure, and what it shows
    keys: Mapping[str, Any]  #: those of an experiment file
    vary: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
    claims: Sequence[Claim]
    draw: Callable[[Sweep], Axes]
    #: Keys of the workload besides the file, if a trace is given. If a format is among them, they
    #: are all of its keys; if not, those of the drawn workload are kept. None if the reproduction
    #: takes no trace.
    trace: Mapping[str, Any] | None = None
    derive: Callable[[Result], Mapping[str, float]] | None = None  #: further metrics, for claims
    seeds: int = 10  #: the number that it is meant to run with

    @property
    def takes_trace(self) -> bool:
        """Whether a real trace may take the place of the drawn one."""
        return self.trace is not None

    def run(self, *, seeds: int | Sequence[int] = 10, trace: str | Path | None = None,
            workers: int = 1, folder: str | Path | None = None, resume: bool = True,
            progress: bool | Callable[[int, int, int], None] = False,
            places: Sequence[Mapping[str, Any]] | None = None) -> Reproduced:
        """Run the sweep and check the claims.

        `trace` is the real trace, for workloads made from one; by default, a trace with its
        characteristics is drawn. If `places` is given, only runs that any of these selects are run,
        by columns and values as for `Runs.of`, and no table of claims is written, as the folder may
        hold the whole figure.
        """
        sweep = sweep_experiment(self.draft(trace), self.vary, seeds=seeds, workers=workers,
                                 folder=folder, resume=resume, progress=progress,
                                 only=None if places is None else partial(_is_in, places))
        sweep = self.derived(sweep)
        claims = table_of_claims(self.claims, sweep.table)
        if folder is not None and places is None:
            write_tables(folder, claims=claims)
        return Reproduced(sweep.table, claims, lambda: self.draw(sweep), sweep)

    def derived(self, sweep: Sweep) -> Sweep:
        """Add the derived metrics of each run to a sweep as columns."""
        if self.derive is None or not len(sweep.table):
            return sweep
        rows = [{"key": row["key"], **self.derive(result)} for row, result in sweep.results()]
        return replace(sweep, table=sweep.table.merge(pd.DataFrame(rows), on="key", how="left"))

    def draft(self, trace: str | Path | None = None) -> Draft:
        """Make the experiment, on the given trace if there is one."""
        keys = {"name": self.name, **self.keys}
        if trace is not None:
            if self.trace is None:
                raise InputError(f"{self.name} takes no trace")
            own = {} if "format" in self.trace else {
                key: value for key, value in keys["workload"].items() if key != "name"}
            keys["workload"] = {"file": str(Path(trace).absolute()), **self.trace, **own}
        return Draft(keys).copy()


def _is_in(places: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> bool:
    """Whether any of some places selects a combination of varied values."""
    row = pd.DataFrame([values])
    return any(len(Runs(row).rows(**place)) for place in places
               if all(column_of(name, values) for name in place))


@dataclass(frozen=True)
class Measurement:
    """A table of a paper that is not made from runs of an experiment, such as of mappings."""

    name: str
    title: str
    measure: Callable[[int], pd.DataFrame]  #: the rows of a seed, with columns that identify them
    claims: Sequence[Claim]
    draw: Callable[[pd.DataFrame], Axes]  #: draws the table of all seeds
    #: Columns that differ between runs of the same seed, such as times to solve. They are not
    #: written to files, as the same seeds must give the same bytes.
    unsteady: Sequence[str] = ()
    seeds: int = 10

    takes_trace: ClassVar[bool] = False

    def run(self, *, seeds: int | Sequence[int] = 10, trace: str | Path | None = None,
            workers: int = 1, folder: str | Path | None = None, resume: bool = True,
            progress: bool | Callable[[int, int, int], None] = False,
            places: Sequence[Mapping[str, Any]] | None = None) -> Reproduced:
        """Measure all seeds and check the claims; a trace is refused.

        `workers`, `resume` and `places` have no effect, as one process measures all seeds from the
        start.
        """
        if trace is not None:
            raise InputError(f"{self.name} takes no trace")
        chosen, parts = seeds_of(seeds), []
        with show_runs(progress, len(chosen), 0) as report:
            for seed in chosen:
                began = perf_counter()
                part = self.measure(seed).assign(seed=seed)
                parts.append(part.assign(wall_s=(perf_counter() - began) / len(part)))
                report(False)
        table = pd.concat(parts, ignore_index=True)
        claims = table_of_claims(self.claims, table)
        if folder is not None:
            steady = table.assign(**dict.fromkeys(self.unsteady, float("nan")))
            write_tables(folder, runs=table.drop(columns=["wall_s", *self.unsteady]),
                         claims=table_of_claims(self.claims, steady))
        return Reproduced(table, claims, lambda: self.draw(table))


def write_tables(folder: str | Path, **tables: pd.DataFrame) -> None:
    """Write tables to CSV files with their names."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        RunStore(folder).write(f"{name}.csv", table.to_csv(index=False, lineterminator="\n"))


#: Distance between axes and title, and height of a row of a legend, in points.
_PAD, _ROW = 6.0, 10.0

#: Letters that fit above axes, and letters that the sample of a legend's entry replaces.
_LETTERS, _SAMPLE = 46, 5


def _title_pad(ax: Axes, title: str) -> float:
    """The distance of a title from its axes, in points, clear of the legend."""
    legend = ax.get_legend()
    if legend is None:
        return _PAD
    names = [text.get_text() for text in legend.get_texts()]
    rows = -(-len(names) // legend._ncols)  # type: ignore[attr-defined]
    letters = len(title) + sum(len(name) + _SAMPLE for name in names)
    return _PAD if rows == 1 and letters < _LETTERS else _PAD + _ROW * rows


def panels(parts: Mapping[str, Drawn], draw: Callable[[Drawn, Axes], Any],
           height_in: float = 2.3) -> Axes:
    """Draw each of several things, by title, on its own axes, one above the other.

    The first axes are returned.
    """
    axes = new_figure(height_in * len(parts)).subplots(len(parts), squeeze=False)[:, 0]
    for ax, (title, part) in zip(axes, parts.items(), strict=True):
        draw(part, ax)
        ax.set_title(title, fontsize=8, loc="left", pad=_title_pad(ax, title))
    first: Axes = axes[0]
    return first
