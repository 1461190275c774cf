"""Comparison of several runs of the same workload: its table, and its text."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from netsim.analysis.coflows import ALL, CLASSES, classify_coflows, each_class
from netsim.analysis.intervals import geometric_interval, sides_of_one
from netsim.base.lazy import pd
from netsim.base.units import Quantity, decimals_for
from netsim.errors import InputError, UnknownNameError
from netsim.results.result import Result
from netsim.results.summary import spread, times
from netsim.text import visible

#: Label of the last row.
LOWER_BOUND = "lower bound"

#: Columns on the allocation of leftover bandwidth and on when rates are decided.
_SHARING = ("leftover", "decides_per")

#: Columns on workers or GPUs, which a table has if they are known of one of its runs.
_OF_WORKERS = ("utilisation", "preemptions", "cloud_share")

#: Columns that identify a coflow in different runs, whatever the order in which coflows finish.
_COFLOW = ["job", "iteration", "stage"]


def table_of(results: Mapping[str, Result], baseline: str | None = None) -> pd.DataFrame:
    """Build the table of `Comparison.table`, whose docstring explains the columns.

    Lower bounds may depend on the servers that jobs got, and so differ between runs. The last row
    therefore uses the least bound of each job, and the least mean bound on CCTs, which hold for all
    runs.
    """
    rows = [_row(label, result, results) for label, result in results.items()]
    rows.append(_bound(results))
    table = pd.DataFrame(rows)
    base = rows[0 if baseline is None else list(results).index(baseline)]
    jobs = len(next(iter(results.values())).jobs)
    whole = table["jobs_finished"].eq(jobs) & (base["jobs_finished"] == jobs)
    ratio = (table["jct_total_s"] / base["jct_total_s"]).where(whole)
    table.insert(list(table.columns).index("over_lower_bound") + 1, "over_baseline", ratio)
    table = table.astype({"decisions": "Int64", "preemptions": "Int64"})
    return table.drop(columns=[name for name in _OF_WORKERS if table[name].isna().all()])


def _row(label: str, result: Result, results: Mapping[str, Result]) -> dict[str, Any]:
    """Build the row of a result."""
    summary, sharing = result.summary(), result.run.get("sharing", {})
    return {
        "label": label,
        "scheme": _scheme(label, results),
        "work_conservation": result.run["allocator"].get("work_conservation", ""),
        **{name: str(sharing.get(name, "")) for name in _SHARING},  # as far as known
        "jobs_finished": summary["jobs_finished"],
        "jct_total_s": summary["jct_total_s"],
        "over_lower_bound": _ratio(summary["jct_total_s"], summary["lower_bound_total_s"]),
        "jct_mean_s": summary["jct_mean_s"],
        "jct_p95_s": summary["jct_p95_s"],
        "cct_mean_s": summary.get("cct_mean_s", math.nan),
        "makespan_s": summary["makespan_s"],
        **_of_workers(summary),
        "decisions": summary["decisions"],
        "wall_s": summary["wall_s"],
    }


def _of_workers(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The columns on workers or GPUs; NaN or None where unknown."""
    share = summary.get("utilisation", summary.get("gpu_utilisation", math.nan))
    chunks = summary.get("chunks")
    values = (share, summary.get("preemptions"),
              summary["cloud_chunks"] / chunks if chunks else math.nan)
    return dict(zip(_OF_WORKERS, values, strict=True))


def _bound(results: Mapping[str, Result]) -> dict[str, Any]:
    """Build the row of the lower bound: each job, and each coflow, alone on the network."""
    arrival_s = _of_jobs(next(iter(results.values())), "arrival_s")
    least = _least_bounds(results)
    bound = times(least, "jct")
    gamma_s = [result.coflows["gamma_s"].mean() for result in results.values()
               if "coflows" in result.recorded]
    ends = arrival_s + least
    return {
        "label": LOWER_BOUND, "scheme": LOWER_BOUND, "work_conservation": "",
        **dict.fromkeys(_SHARING, ""),
        "jobs_finished": len(arrival_s),
        "jct_total_s": bound["jct_total_s"],
        "over_lower_bound": _ratio(bound["jct_total_s"], bound["jct_total_s"]),
        "jct_mean_s": bound["jct_mean_s"],
        "jct_p95_s": bound["jct_p95_s"],
        "cct_mean_s": pd.Series(gamma_s, dtype=float).min(),
        "makespan_s": ends.max() - arrival_s.min(),
        **_of_workers({}),
        "decisions": None,
        "wall_s": math.nan,
    }


def _least_bounds(results: Mapping[str, Result]) -> pd.Series:
    """The least lower bound of each job over several runs, by job."""
    bounds = [_of_jobs(result, "lower_bound_s") for result in results.values()]
    return _least(bounds[0], bounds[1:])


def _least(first: pd.Series, others: Iterable[pd.Series]) -> pd.Series:
    """The elementwise minimum of several series, ignoring missing values."""
    return pd.concat([first, *(each.reindex(first.index) for each in others)], axis=1).min(axis=1)


def note_of(table: pd.DataFrame) -> str:
    """Tell how the runs of a table differ in allocating leftover bandwidth; empty if they agree."""
    runs = table.iloc[:-1]
    if all(runs.loc[runs[name] != "", name].nunique() < 2 for name in _SHARING):
        return ""
    ways = (f"{leftover or 'unknown'}, decided per {event} ({', '.join(group['label'])})"
            for (leftover, event), group in runs.groupby(list(_SHARING), sort=False))
    return ("Runs allocate leftover bandwidth in different ways, which explains part of the "
            f"differences: {'; '.join(ways)}.")


def _ratio(total: float, bound: float) -> float:
    """Divide a total by a bound; NaN if the bound is 0."""
    return total / bound if bound > 0 else math.nan


def _scheme(label: str, results: Mapping[str, Result]) -> str:
    """The label of the same policy run with work conservation, if there is one; else its own."""
    own = results[label].run["allocator"]
    if own.get("work_conservation") != "none":
        return label
    for other, result in results.items():
        theirs = result.run["allocator"]
        if other != label and theirs | {"work_conservation": "none"} == own:
            return other
    return label


def ratios_to(baseline: str, results: Mapping[str, Result], *, short: Quantity = "5MB",
              narrow: int = 50) -> pd.DataFrame:
    """Build the table of `Comparison.against`, whose docstring explains the columns.

    If runs have different bounds of a coflow, the least one is used, so that no ratio is below that
    of the lower bound. If the baseline did not record coflows, the only class is ``"all"``.
    """
    if baseline not in results:
        raise UnknownNameError("baseline", baseline, results)
    base = results[baseline]
    classes = _classes(base, short, narrow)
    rows = []
    for label, result in results.items():
        if label != baseline:
            rows += _ratios(label, classes, _ccts(result), base, _of_jobs(result))
    rows += _ratios(LOWER_BOUND, classes, _least_gamma(classes[ALL]["gamma_s"], results), base,
                    _least_bounds(results))
    counts = [f"{name}_{side}" for name in ("cct", "jct") for side in ("shorter", "longer")]
    table = pd.DataFrame(rows).astype(dict.fromkeys(counts, "Int64"))
    table.insert(1, "baseline", baseline)
    return table


def _classes(result: Result, short: Quantity, narrow: int) -> dict[str, pd.DataFrame]:
    """The coflows of each class and of all, indexed by keys that all runs share."""
    if "coflows" not in result.recorded:
        return {ALL: pd.DataFrame({"cct_s": [], "gamma_s": []})}
    coflows = classify_coflows(result, short=short, narrow=narrow)
    return dict(each_class(_keyed(coflows)))


def _keyed(coflows: pd.DataFrame) -> pd.DataFrame:
    """Index coflows by job, iteration and stage."""
    keyed = coflows.astype({"stage": str}).set_index(_COFLOW)
    if not keyed.index.is_unique:
        job, iteration, stage = keyed.index[keyed.index.duplicated()][0]
        raise InputError(f"a result has two coflows of job {job}, iteration {iteration}, stage "
                         f"{stage!r}")
    return keyed


def _ccts(result: Result, column: str = "cct_s") -> pd.Series | None:
    """The CCTs, or another column, by coflow; None if coflows were not recorded."""
    return _keyed(result.coflows)[column] if "coflows" in result.recorded else None


def _least_gamma(gamma_s: pd.Series, results: Mapping[str, Result]) -> pd.Series:
    """The least lower bound over several runs of each coflow of the baseline."""
    known = (_ccts(result, "gamma_s") for result in results.values())
    return _least(gamma_s, (each for each in known if each is not None))


def _of_jobs(result: Result, column: str = "jct_s") -> pd.Series:
    """A column of the table of jobs, by job."""
    return result.jobs.set_index("job")[column]


def _ratios(label: str, classes: Mapping[str, pd.DataFrame], ccts: pd.Series | None,
            base: Result, jcts: pd.Series) -> list[dict[str, Any]]:
    """Build the rows of one label from its CCTs and JCTs."""
    of_base = _of_jobs(base)
    whole = of_base.notna().all() and jcts.notna().all()
    rows = []
    for name, group in classes.items():
        before = group["cct_s"]
        after = ccts.reindex(group.index) if whole and ccts is not None else before * math.nan
        old, new = spread(before), spread(after)
        of_jobs = of_base if whole and name == ALL else of_base * math.nan
        rows.append({"label": label, "class": name, "coflows": len(group)}
                    | {f"cct_{figure}_ratio": _ratio(new[figure], old[figure]) for figure in old}
                    | _each("cct", before, after)
                    | {"jct_total_ratio": _ratio(jcts.sum(), of_jobs.sum(skipna=False))}
                    | _each("jct", of_jobs, jcts))
    return rows


def _each(name: str, before: pd.Series, after: pd.Series) -> dict[str, Any]:
    """Summarise ratios: geometric mean, its interval, and numbers of shorter and longer times."""
    ratios = (after / before).where((before > 0) & (after > 0)).dropna()
    mean, low, high = geometric_interval(ratios)
    shorter, longer = sides_of_one(ratios) if len(ratios) else (pd.NA, pd.NA)
    return {f"{name}_each_ratio": mean, f"{name}_each_ratio_low": low,
            f"{name}_each_ratio_high": high,
            f"{name}_shorter": shorter, f"{name}_longer": longer}


#: Columns of texts by their headings.
Columns = Mapping[str, Sequence[str]]


# --- as text -------------------------------------------------------------------------------

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
    """Format a column of figures; most with three significant digits of the smallest value."""
    values = figures[key].astype(float).tolist()
    shown = _FORMATS.get(key) or f"{{:,.{decimals_for(values)}f}}"
    return [shown.format(value) if math.isfinite(value) else "-" for value in values]
