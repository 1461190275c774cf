"""Results of a sweep: a table with a row per run, means, and ratios pair by pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tomli_w

from netsim.analysis.intervals import means_of, of_whole_runs, policies_in, ratios_of
from netsim.base.arrays import Floats
from netsim.base.brief import MOST_ROWS, shown
from netsim.base.display import draw
from netsim.base.lazy import pd
from netsim.base.tables import read_csv
from netsim.base.units import (
    format_count,
    format_quantity,
    parse_bytes,
    parse_rate,
    parse_seconds,
)
from netsim.base.values import known_names
from netsim.errors import InputError, UnknownNameError
from netsim.studies.grid import Policy, is_label_in, label_in
from netsim.studies.run_store import RunStore, Scratch
from netsim.text import bare_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results.result import Result
    from netsim.studies.executors import Failure
    from netsim.studies.grid import SweepRun

#: The metrics of `Sweep.means` by default.
_MEANS_OF = ("jct_total_s", "over_lower_bound", "jct_mean_s", "jct_p95_s", "cct_mean_s",
             "makespan_s")

#: Entries of a stored summary that are not metrics.
_OF_RUN = ("allocator", "cluster", "counts", "execution", "gpus", "network", "observe_interval",
           "overdue", "placement", "platform", "python", "scheduler", "seed", "sharing", "tables",
           "version", "workers", "workload", "workload_seed")

#: Not written to tables: the same sweep gives the same bytes.
_UNSTEADY = ("wall_s",)


@dataclass(frozen=True)
class Sweep:
    """The finished runs of a sweep.

    Attributes
    ----------
    folder : Path
        Folder of the sweep. Each run is a folder ``runs/<key>``, which `netsim.load_result` reads.
    columns : tuple of str
        The varied settings, except the seed.
    table : DataFrame
        A row per run, in order of the grid: `columns`, seed, the numbers of `Result.summary`,
        leftover and decides_per (see `netsim.Comparison.table`), over_lower_bound (total JCT
        divided by its lower bound), key.
    failures : DataFrame
        A row per run that failed: `columns`, seed, error, key, details. If the run can be written
        as an experiment file, this file is ``failed/<key>.toml`` in the folder.
    missing : int
        Number of runs without a result, failed ones included.
    experiment : mapping
        Settings that all runs have in common, as in an experiment file.
    grid : mapping of str to list
        The values of each of `columns`, and the seeds.
    code : str
        Version of the code that computed the runs.
    baseline : str or None
        Label of the policy to which ratios refer, if the experiment names it; None stands for the
        first policy of the grid.
    units : mapping of str to str
        Units of columns whose values were drawn from a range with units: ``"s"``, ``"B"`` or
        ``"B/s"``.
    """

    folder: Path
    columns: tuple[str, ...]
    table: pd.DataFrame
    failures: pd.DataFrame
    missing: int
    experiment: Mapping[str, Any]
    grid: Mapping[str, list[Any]]
    code: str
    baseline: str | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    _scratch: Scratch | None = field(default=None, repr=False)

    @classmethod
    @known_names
    def load(cls, folder: str | Path, scratch: Scratch | None = None) -> Sweep:
        """Load the sweep in a folder; damaged runs count as missing.

        Parameters
        ----------
        folder : path-like
        scratch : Scratch, optional
            Temporary folder that is kept as long as the sweep is.

        Raises
        ------
        InputError
            If there is no sweep in the folder.
        """
        store = RunStore(folder)
        index = store.read_index()
        columns = tuple(index["columns"])
        found = [(run, summary) for run in index["runs"]
                 if (summary := store.summary(run["key"])) is not None]
        table = pd.DataFrame([_row(columns, run, summary) for run, summary in found])
        grid = {name: list(dict.fromkeys(run[name] for run in index["runs"]))
                for name in (*columns, "seed")}
        return cls(Path(folder), columns, table, _failures(store, index),
                   len(index["runs"]) - len(found), index["experiment"], grid, index["code"],
                   index.get("baseline"), index.get("units", {}), scratch)

    def __getitem__(self, policy: Policy) -> pd.DataFrame:
        """Select the rows of `table` of a policy, by its label or as it was given."""
        column = self._of_policies()
        return self.table[self.table[column] == self._value(column, policy, "policy")]

    def __contains__(self, policy: Policy) -> bool:
        return is_label_in(policy, self.grid[self._of_policies()])

    def __iter__(self) -> Iterator[str]:
        return iter(self.grid[self._of_policies()])

    def __len__(self) -> int:
        return len(self.grid[self._of_policies()])

    def _of_policies(self) -> str:
        """The column by whose values the sweep is indexed."""
        varied = [name for name in ("allocator", "scheduler") if name in self.columns]
        if not varied:
            raise InputError(f"this sweep varied {', '.join(self.columns) or 'seeds alone'}, but "
                             "no policies, so no policy can be looked up; its table has all runs")
        return varied[0]

    # --- numbers ---------------------------------------------------------------------------

    @known_names
    def means(self, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Return means over seeds with 95 % confidence intervals.

        Means of times are NaN if one of their runs was stopped before all jobs had finished. Means
        of metrics that are ratios are geometric. Intervals assume normally distributed values, and
        are clipped at 0 for metrics without negative values.

        Parameters
        ----------
        metrics : sequence of str, optional
            Columns of the table. By default, jct_total_s, over_lower_bound, jct_mean_s, jct_p95_s,
            cct_mean_s and makespan_s.

        Returns
        -------
        DataFrame
            A row per combination of the varied settings, with columns for these, ``runs`` and, for
            each metric, its mean and the ends of the interval, ``<metric>_low`` and
            ``<metric>_high``. The interval is NaN for a single run.

        Raises
        ------
        InputError
            If there are no runs, or no such columns.
        """
        self._check()
        known = [name for name in _MEANS_OF if name in self.table]
        chosen = known if metrics is None else list(metrics)
        whole = {name: of_whole_runs(self.table, name) for name in chosen if name in self.table}
        return means_of(self.table.assign(**whole), self.columns, chosen)

    @known_names
    def ratios(self, of: str | None = None, baseline: Any = None,
               metric: str = "jct_total_s") -> pd.DataFrame:
        """Return geometric means of ratios to a baseline, over pairs of runs with the same seed.

        The influence of the seed cancels out in pairs, so that intervals are narrower than those of
        `means`.

        Parameters
        ----------
        of : str, optional
            The varied column to compare. By default, the policy if one was varied, else the first
            column.
        baseline : optional
            A value of this column. A policy may also be given as it was given to the sweep. By
            default, `Sweep.baseline` if it is a value of the column, else the first value.
        metric : str
            A column of the table.

        Returns
        -------
        DataFrame
            A row per combination of the varied settings, without those of the baseline. Besides
            columns for the settings, there are

            baseline, pairs
                The baseline, and the number of pairs.
            ratio, ratio_low, ratio_high
                Geometric mean of the metric divided by the baseline's metric, and its 95 %
                confidence interval.
            below, above
                Numbers of pairs with a ratio below and above 1.

            Ratios of times are missing if a run of a pair did not finish all its jobs.

        Raises
        ------
        InputError
            If there are no runs, the column was not varied, or the value or the metric does not
            exist.
        """
        self._check()
        of = of or self.compared
        if of not in self.columns:
            raise UnknownNameError("varied key", of, self.columns)
        by = [name for name in self.columns if name != of]
        chosen = self._reference(of) if baseline is None else self._value(of, baseline, "baseline")
        ratios = ratios_of(self.table, of, chosen, by, metric)
        ratios.insert(len(by) + 1, "baseline", chosen)
        return ratios

    def ratios_if_any(self) -> pd.DataFrame | None:
        """Return `ratios` with its defaults; None if there is nothing to compare."""
        try:
            return self.ratios()
        except InputError:
            return None

    def _reference(self, of: str) -> Any:
        """The baseline, or the first value of the grid; at least one run must have it."""
        values = self.grid[of]
        chosen = self.baseline if self.baseline in values else values[0]
        if chosen not in set(self.table[of]):
            raise InputError(f"there is no run of {chosen} to compare with; name another baseline")
        return chosen

    def _value(self, column: str, given: Any, what: str) -> Any:
        """Find the value of the grid that equals a given one, or the policy that it names."""
        values = self.grid[column]
        if column in ("allocator", "scheduler"):
            return label_in(given, values, what)
        if given in values:
            return given
        amounts = _amounts(given)
        for value in values:
            if not amounts.isdisjoint(_amounts(value)):
                return value
        raise UnknownNameError(what, given, map(str, values))

    @cached_property
    def compared(self) -> str:
        """The column that is compared by default: the policy if one was varied, else the first.

        If several kinds of policies were varied, it is the kind to which the baseline belongs.

        Raises
        ------
        InputError
            If only the seed was varied.
        """
        if not self.columns:
            raise InputError("nothing was varied but the seed: there is nothing to compare")
        policies = policies_in(self.columns)
        named = [name for name in policies if self.baseline in self.grid[name]]
        return next(iter(named + policies), self.columns[0])

    def _check(self) -> None:
        if not len(self.table):
            failed = (f"; {len(self.failures)} failed, the first with: "
                      f"{self.failures['error'].iloc[0]}" if len(self.failures) else "")
            raise InputError(f"{self.folder}: the sweep has no runs{failed}")

    def with_units(self) -> Sweep:
        """Convert values drawn from ranges with units to quantities, such as ``"8.83 Gbps"``.

        Returns
        -------
        Sweep
            The same runs. `table`, `failures` and `grid` have strings in the converted columns.
        """
        written = {}
        for name, unit in self.units.items():
            drawn = [value for value in self.grid[name] if isinstance(value, float)]
            texts = [[format_quantity(value, unit, digits) for value in drawn]
                     for digits in (3, 4, 6)]
            chosen = next((each for each in texts if len(set(each)) == len(drawn)), texts[-1])
            written[name] = dict(zip(drawn, chosen, strict=True))
        return replace(self._rewritten(written), units={}) if written else self

    def as_shown(self) -> Sweep:
        """Return the sweep with values as figures and tables show them.

        Quantities have units, and policies of one's own are classes without their modules, where
        these are not ambiguous.
        """
        policies = [name for name in policies_in(self.columns) if name in self.grid]
        names = {name: bare_names(self.grid[name]) for name in policies}
        shown = self.with_units()._rewritten(names)
        every = {label: text for texts in names.values() for label, text in texts.items()}
        return replace(shown, baseline=every.get(self.baseline or "", self.baseline))

    def _rewritten(self, texts: Mapping[str, Mapping[Any, str]]) -> Sweep:
        """Replace values of columns in all tables."""
        def of(name: str, values: Iterable[Any]) -> list[Any]:
            return [texts.get(name, {}).get(value, value) for value in values]

        def texts_in(table: pd.DataFrame) -> pd.DataFrame:
            return table.assign(**{name: of(name, table[name]) for name in texts if name in table})

        return replace(self, table=texts_in(self.table), failures=texts_in(self.failures),
                       grid={name: of(name, values) for name, values in self.grid.items()})

    # --- runs ------------------------------------------------------------------------------

    def where(self, **values: Any) -> Sweep:
        """Select runs by values of columns.

        Parameters
        ----------
        **values
            Values by column, such as ``seed=3``; for columns with a dot,
            ``**{"network.capacity": "10Gbps"}``. A policy may be given as to the sweep, and a
            quantity in any unit: ``"1ms"`` is ``"1 ms"`` and 0.001.

        Raises
        ------
        UnknownNameError
            If there is no such column, or the grid does not have the value.
        """
        rows = self.table
        for name, value in values.items():
            if name not in rows:
                raise UnknownNameError("column", name, map(str, rows.columns))
            chosen = self._value(name, value, name) if name in self.grid else value
            rows = rows[rows[name] == chosen]
        return replace(self, table=rows)

    def results(self, **values: Any) -> Iterator[tuple[Mapping[str, Any], Result]]:
        """Yield the row and the result of each run, or of those that `where` selects."""
        store = RunStore(self.folder)
        for row in self.where(**values).table.to_dict("records"):
            yield {str(name): value for name, value in row.items()}, store.result(row["key"])

    @known_names
    def pooled(self, column: str = "jct_s", by: Sequence[str] | None = None) -> dict[str, Floats]:
        """Return the times of all jobs or coflows, pooled over seeds.

        Parameters
        ----------
        column : str
            A column of ``result.jobs``, or ``"cct_s"`` of ``result.coflows``.
        by : sequence of str, optional
            Columns by which runs are grouped. By default, all varied columns.

        Returns
        -------
        dict
            Maps the values of `by`, as in ``"10Gbps, parrot"``, to the times of all completed jobs
            or coflows, in no particular order.

        Raises
        ------
        InputError
            If the coflows were not recorded.
        """
        columns = self.columns if by is None else by
        pools: dict[str, list[Floats]] = {}
        for row, result in self.results():
            frame = result.coflows if column == "cct_s" else result.jobs
            label = ", ".join(str(row[name]) for name in columns) or "all"
            pools.setdefault(label, []).append(frame[column].dropna().to_numpy())
        return {value: np.concatenate(parts) for value, parts in pools.items()}

    @known_names
    def plot(self, kind: str | None = None, of: str | None = None, *, x: str | None = None,
             y: str | None = None, hue: str | None = None, col: str | None = None,
             row: str | None = None, style: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the sweep, in panels if several settings were varied.

        Parameters
        ----------
        kind : {"bars", "sweep", "cdf", "scatter"}, optional
            By default ``"sweep"`` if a number or a quantity was varied, ``"scatter"`` if two were
            drawn together, else ``"bars"``. ``"bars"``: a metric as bars, with 95 % confidence
            intervals. ``"sweep"``: a metric as lines over a varied setting other than the policy,
            with the same intervals. ``"cdf"``: distributions over all seeds. ``"scatter"``: a
            metric as the colour of dots, for points drawn from two ranges.
        of : str, optional
            The metric to draw; for ``"cdf"``, ``"jct"`` or ``"cct"``.
        x : str, optional
            For ``"sweep"`` and ``"scatter"``: the varied setting on the x axis; by default the
            setting with the most numbers or else values, policies excepted.
        y : str, optional
            For ``"scatter"``: the varied setting on the y axis.
        hue : str, optional
            The varied setting shown by colours; by default the policy.
        col, row : str, optional
            Varied settings with a panel per value, in columns or rows; by default the other varied
            settings.
        style : str, optional
            For ``"sweep"``: the varied setting shown by dashes.
        ax : Axes, optional
            Axes to draw on; by default those of a new figure. They are one panel, so there are no
            `col` and `row`.

        Returns
        -------
        Axes
            The first panel; its ``figure`` has all.

        Raises
        ------
        UnknownNameError
            If there is no such picture, metric or setting.
        MissingExtraError
            If matplotlib is not installed.
        InputError
            If there is nothing to draw, or more settings were varied than the picture, or `ax`,
            has places for.
        """
        return draw(self, kind, "sweep", of, ax, x=x, y=y, hue=hue, col=col, row=row, style=style)

    # --- files -----------------------------------------------------------------------------

    def save_tables(self) -> None:
        """Write ``runs.csv``, ``means.csv`` and ``ratios.csv`` to the folder.

        Equal sweeps give identical files.
        """
        tables: dict[str, pd.DataFrame | None] = dict.fromkeys(("runs", "means", "ratios"))
        if len(self.table):
            tables["runs"] = self.table.drop(columns=[name for name in _UNSTEADY
                                                      if name in self.table])
            tables["means"] = self.means()
            tables["ratios"] = self.ratios_if_any()
        store = RunStore(self.folder)
        for name, table in tables.items():
            if table is not None:
                store.write(f"{name}.csv", table.to_csv(index=False, lineterminator="\n"))

    def __repr__(self) -> str:
        varied = " x ".join(self.columns) or "seeds"
        counts = {"failed": len(self.failures), "missing": self.missing - len(self.failures)}
        lacking = "".join(f", {count:,} {what}" for what, count in counts.items() if count > 0)
        return f"<Sweep over {varied}: {format_count(len(self.table), 'run')}{lacking}>"

    def _repr_html_(self) -> str:
        shown_columns = [name for name in (*self.columns, "seed", *_MEANS_OF) if name in self.table]
        rows = self.as_shown().table[shown_columns].head(MOST_ROWS)
        return shown(repr(self), rows, len(self.table))


def _row(columns: Sequence[str], run: Mapping[str, Any], summary: Mapping[str, Any]
         ) -> dict[str, Any]:
    metrics = {name: np.nan if value is None else value for name, value in summary.items()
               if name not in _OF_RUN} | summary.get("sharing", {})
    bound = metrics["lower_bound_total_s"]
    return ({name: run[name] for name in columns} | {"seed": run["seed"]} | metrics
            | {"over_lower_bound": metrics["jct_total_s"] / bound if bound else np.nan}
            | {"key": run["key"]})


def save_failures(store: RunStore, failed: Sequence[tuple[SweepRun, Failure]]) -> None:
    """Write ``failures.csv`` and the experiments of failed runs, if there are any."""
    if not failed:
        return
    rows = [{**run.varied, "seed": run.seed, "error": failure.error, "key": run.key,
             "details": failure.details} for run, failure in failed]
    store.write("failures.csv", pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))
    for run, failure in failed:
        if run.task.spec is not None:
            text = "".join(f"# {line}\n" for line in failure.error.splitlines())
            store.write(f"failed/{run.key}.toml", text + tomli_w.dumps(run.task.spec))


def _failures(store: RunStore, index: Mapping[str, Any]) -> pd.DataFrame:
    """Load the failures that `save_failures` wrote, for runs of the index."""
    columns = [*index["columns"], "seed", "error", "key", "details"]
    path = store.folder / "failures.csv"
    if not path.is_file():
        return pd.DataFrame(columns=columns)
    said = read_csv(path, dtype=str, keep_default_na=False).set_index("key")
    rows = [{**run, "error": said.loc[run["key"], "error"],
             "details": said.loc[run["key"], "details"]}
            for run in index["runs"] if run["key"] in said.index]
    return pd.DataFrame(rows, columns=columns)


@known_names
def load_sweep(folder: str | Path) -> Sweep:
    """Load the finished runs of a sweep from its folder; see `Sweep.load`."""
    return Sweep.load(folder)


def _amounts(value: Any) -> set[tuple[str, float]]:
    """The kinds and amounts that a quantity may be; a number without unit may be of each kind."""
    found = set()
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        for parse in (parse_seconds, parse_rate, parse_bytes):
            with suppress(InputError):
                found.add((parse.__name__, parse(value)))
    return found
