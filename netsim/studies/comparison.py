"""Results of one workload under several allocators or schedulers; results from folders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.analysis.comparison_table import (
    LOWER_BOUND,
    Part,
    note_of,
    parts_of,
    ratios_to,
    table_of,
    text_of,
)
from netsim.base.brief import MOST_ROWS, shown
from netsim.base.display import draw
from netsim.base.lazy import pd
from netsim.base.tables import read_csv
from netsim.base.units import Quantity
from netsim.base.values import known_names
from netsim.errors import InputError
from netsim.results.result import Result, load_result, read_spec, records_of
from netsim.results.store import folder_names, save_comparison
from netsim.studies.grid import Policy, is_label_in, label_in
from netsim.studies.sweep_result import load_sweep
from netsim.text import bare_names, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: How many labels a comparison shows of itself.
_SHOWN = 12


@dataclass(frozen=True)
class Comparison:
    """The results of one workload under several allocators or schedulers.

    Its string is the table that ``netsim compare`` prints.

    Attributes
    ----------
    results : mapping of str to Result
        Results by label, in the order of the policies given.
    spec : mapping or None
        The resolved experiment, if there was one.
    baseline : str or None
        Label of the policy with which the others are compared; None stands for the first policy.
    """

    results: Mapping[str, Result]
    spec: Mapping[str, Any] | None = None
    baseline: str | None = None

    def __post_init__(self) -> None:
        if self.baseline is not None:
            object.__setattr__(self, "baseline", label_in(self.baseline, self.results))

    def as_shown(self) -> Comparison:
        """Return the comparison with labels as figures and tables show them; see `bare_names`."""
        names = bare_names(self.results)
        baseline = None if self.baseline is None else names[self.baseline]
        return Comparison({names[label]: result for label, result in self.results.items()},
                          self.spec, baseline)

    @property
    def what(self) -> str:
        """The kind of policy that is compared: ``"scheduler"`` or ``"allocator"``."""
        schedulers = {str(result.run.get("scheduler")) for result in self.results.values()}
        return "scheduler" if len(schedulers) > 1 else "allocator"

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per policy, and a last row for the lower bound.

        The columns are

        label, scheme
            `scheme` is equal to `label`, except for a run without work conservation: if the same
            policy also ran with work conservation, `scheme` is the label of that run, so that the
            two can be grouped.
        work_conservation
            The allocator's option; empty if it has none.
        leftover, decides_per
            How the bandwidth that the allocator's order leaves over is allocated, such as
            ``"maxmin to flows"``, or ``"greedy to coflows"`` if the flows of a coflow keep equal
            progress; and whether rates are decided at the end of each ``"flow"`` or only of each
            ``"coflow"``. Empty if unknown, or if no links are shared.
        jobs_finished, jct_total_s, jct_mean_s, jct_p95_s, cct_mean_s, makespan_s
            As in `Result.summary`. CCTs are NaN if they were not recorded.
        over_lower_bound
            Total JCT of the jobs that finished, divided by the run's own lower bound on it.
        over_baseline
            Total JCT divided by that of the baseline. NaN if one of the two runs did not finish all
            jobs.
        utilisation, preemptions, cloud_share
            Share of time for which GPUs were held, or edge workers trained; number of preemptions;
            and, on an edge-cloud, the share of chunks that trained in the cloud. The values are
            missing for the lower bound. A column is left out if no run has values for it.
        decisions, wall_s
            Cost of the run; missing for the lower bound.
        """
        return table_of(self.results, self.baseline)

    @property
    def note(self) -> str:
        """A note on policies that share leftover bandwidth, or time decisions, differently.

        Empty if there are no such differences.
        """
        return note_of(self.table)

    @known_names
    def against(self, baseline: Policy | None = None, *, short: Quantity = "5MB", narrow: int = 50
                ) -> pd.DataFrame:
        """Return the times of each run over those of the baseline, by class of coflow.

        Parameters
        ----------
        baseline : str, mapping, class or Allocator, optional
            A label, or the policy as it was given to `compare`. By default, `Comparison.baseline`.
        short, narrow
            As for `netsim.classify_coflows`.

        Returns
        -------
        DataFrame
            A row per class of each label except the baseline. The last rows are those of the lower
            bound, for which every coflow has the network to itself. Values below 1 are better; the
            Varys and Aalo papers report the inverse. They are missing if one of the two runs did
            not finish all jobs, or did not record coflows. The columns are

            label, baseline, class, coflows
                `class` is as in `netsim.classify_coflows`, or ``"all"``; `coflows` is the number of
                its coflows that the baseline completed.
            cct_mean_ratio, cct_p50_ratio, cct_p95_ratio, cct_p99_ratio
                Ratios of the means and of the percentiles of CCTs.
            cct_each_ratio, cct_each_ratio_low, cct_each_ratio_high
                Geometric mean of the ratios of single coflows with bytes, and its 95 % confidence
                interval under the assumption that coflows are independent. The interval describes
                this run, not other seeds.
            cct_shorter, cct_longer
                Number of coflows whose CCT is shorter than under the baseline, and number of those
                whose CCT is longer.
            jct_total_ratio
                Ratio of total JCTs. All columns of JCTs have values only in rows of ``"all"``.
            jct_each_ratio, jct_each_ratio_low, jct_each_ratio_high, jct_shorter, jct_longer
                The same as the columns of CCTs with similar names, for the JCTs of jobs.

        Raises
        ------
        UnknownNameError
            If there is no such label.
        InputError
            If a threshold is not allowed.

        Examples
        --------
        >>> import netsim
        >>> compared = netsim.compare("parrot-fig2", "parrot-fig2", ["sebf", "aalo", "maxmin"])
        >>> ratios = compared.against("maxmin").query("`class` == 'all'")
        >>> ratios[["label", "cct_mean_ratio", "cct_each_ratio", "jct_total_ratio"]].round(2)
                  label  cct_mean_ratio  cct_each_ratio  jct_total_ratio
        4          sebf            0.92            0.78             0.92
        9          aalo            1.08            1.14             1.08
        14  lower bound            0.58            0.55             0.58
        """
        chosen = (self.baseline or next(iter(self.results))) if baseline is None else baseline
        return ratios_to(label_in(chosen, self.results), self.results, short=short, narrow=narrow)

    @known_names
    def plot(self, kind: str = "bars", of: str | None = None, *, ax: Axes | None = None,
             between: Sequence[Quantity] | None = None) -> Axes:
        """Draw the comparison.

        Parameters
        ----------
        kind : {"bars", "cdf", "classes", "slowdown", "timeline", "utilisation", "usage"}
            ``"bars"``: total JCTs, divided by the lower bound. ``"cdf"``: distributions of JCTs or
            CCTs. ``"classes"``: mean CCTs, divided by those of the baseline, by class of coflow.
            ``"slowdown"``: slowdowns by class. ``"timeline"``: active jobs and coflows over time;
            on an edge-cloud, workers instead of coflows. ``"utilisation"``: the utilisation of
            links, or of the workers of an edge-cloud, over time. ``"usage"``: on a cluster, GPUs in
            use and jobs that wait over time.
        of : str, optional
            As for `Result.plot`; and the GPUs that ``"usage"`` counts, ``"held"`` (by default) or
            ``"running"``.
        ax : Axes, optional
            Axes to draw on, as for `Result.plot`.
        between : (Quantity, Quantity), optional
            The time to draw, as for `Result.plot`.

        Returns
        -------
        Axes
            The first one if there are several; its ``figure`` has all.

        Raises
        ------
        UnknownNameError
            If there is no such picture.
        MissingExtraError
            If matplotlib is not installed.
        InputError
            If the picture is not one of comparisons, there is nothing to draw, or `ax` is given
            and there is a panel per policy, as of the utilisation of links.
        """
        return draw(self, kind, "comparison", of, ax, between=between)

    @known_names
    def save(self, folder: str | Path, format: str = "csv") -> Path:
        """Write ``comparison.csv`` and a folder per run, either completely or not at all.

        If a baseline is set, the table of `against` is written as ``ratios.csv``.

        Parameters
        ----------
        folder : path-like
        format : {"csv", "parquet"}
            Format of the tables of runs; see `netsim.Result.save`.

        Raises
        ------
        OutputError
            If the folder cannot be written, or contains anything other than results.
        UnknownNameError, MissingExtraError
            As `netsim.Result.save` does.
        """
        # Without wall-clock times: the same experiment gives the same bytes.
        tables = {"comparison": self.table.drop(columns="wall_s")}
        if self.baseline is not None:
            tables["ratios"] = self.against()
        return save_comparison(tables, {label: records_of(result) for label, result
                                        in self.results.items()}, self.spec, folder, format)

    def parts(self) -> Iterator[Part]:
        """Yield the printed parts: tables, and lines of text between them."""
        shown = self.as_shown()
        ratios = None if shown.baseline is None else shown.against()
        return parts_of(shown.table, self.what, bool(self.note), shown.baseline, ratios)

    def __str__(self) -> str:
        return text_of(self.parts())

    def __repr__(self) -> str:
        labels = list(bare_names(self.results).values())
        more = f" and {len(labels) - _SHOWN:,} more" if len(labels) > _SHOWN else ""
        return f"<Comparison of {visible(', '.join(labels[:_SHOWN]))}{more}>"

    def _repr_html_(self) -> str:
        columns, _ = next(part for part in self.parts() if not isinstance(part, str))
        return shown(repr(self), {heading.replace("\n", " "): cells[:MOST_ROWS]
                                  for heading, cells in columns.items()}, len(self.table))

    def __getitem__(self, policy: Policy) -> Result:
        """Return the run of a policy, by its label, or as it was given."""
        return self.results[label_in(policy, self.results, "policy")]

    def __contains__(self, policy: Policy) -> bool:
        return is_label_in(policy, self.results)

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


# --- loading -------------------------------------------------------------------------------
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
