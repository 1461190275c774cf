"""Results as tables for people; the files have all figures."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from netsim.analysis.coflows import ALL, CLASSES
from netsim.cli.echo import echo
from netsim.text import visible
from netsim.units import format_bytes, format_seconds

if TYPE_CHECKING:
    import pandas as pd

    from netsim.experiments.compare import Comparison
    from netsim.experiments.result import Result

__all__ = ["print_comparison", "print_result", "print_table"]

_COLUMNS = {
    "total\nJCT (s)": "jct_total_s", "over\nbound": "over_lower_bound",
    "over\nfirst": "over_baseline", "mean\nJCT (s)": "jct_mean_s", "p95\nJCT (s)": "jct_p95_s",
    "mean\nCCT (s)": "cct_mean_s", "makespan\n(s)": "makespan_s",
}

#: Beside the means by class, those of the row of all classes.
_OF_ALL = {"all\np95": "cct_p95", "each CCT\n(geom.)": "cct_each", "total\nJCT": "jct_total"}


def print_result(result: Result, folder: str | os.PathLike[str]) -> None:
    """Print the summary of one run, and where its results are."""
    run, summary = result.run, result.summary()
    bound = summary["lower_bound_total_s"]
    over = f" ({summary['jct_total_s'] / bound:.2f} times the lower bound)" if bound else ""
    stop = summary["stopped_at_s"]
    stopped = "" if stop is None else f"; stopped at {format_seconds(stop)}"
    lines = {
        **_policies(run),
        **({"cluster": f"{run['cluster']}: {run['gpus']:,} GPUs"} if "cluster" in run else {}),
        "network": run["network"],
        "workload": f"{run['workload']}: {summary['jobs']:,} jobs" + (
            f", {summary['coflows']:,} coflows, {format_bytes(summary['bytes'])}"
            if summary["coflows"] else ""),
        "finished": f"{summary['jobs_finished']:,} of {summary['jobs']:,} jobs{stopped}",
        "total JCT": format_seconds(summary["jct_total_s"]) + over,
        "JCT": _spread(summary, "jct"),
        **_queueing(summary), **_at_the_edge(run, summary),
        "CCT": _spread(summary, "cct"),
        **_deadlines(summary),
        "makespan": format_seconds(summary["makespan_s"]),
        "run": f"{summary['decisions']:,} decisions, {summary['simpy_events']:,} SimPy events, "
               f"{format_seconds(summary['wall_s'])}",
        "results": os.fspath(folder),
    }
    for name, text in lines.items():
        echo(f"{name:<9}  {visible(text)}")


def _policies(run: Mapping[str, Any]) -> dict[str, str]:
    """Return what was chosen, each with its options."""
    # By a model there is nothing to allocate.
    names = [name for name in ("scheduler", "placement", "execution", "allocator")
             if name != "allocator" or run[name]["name"] != run.get("execution", {}).get("name")]
    return {name: ", ".join(f"{key} {value}".removeprefix("name ")
                            for key, value in run[name].items() if value is not None)
            for name in names if run.get(name) is not None}


def _at_the_edge(run: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, str]:
    if "cloud_chunks" not in summary:
        return {}
    lines = {"chunks": f"{summary['chunks']:,}, of which {summary['cloud_chunks']:,} in the cloud; "
                       f"{summary['preemptions']:,} preemptions",
             "workers": f"{summary['utilisation']:.1%} of their time in training"}
    if run["execution"]["transport"] != "constant":
        lines["estimates"] = (f"delays {summary['delay_ratio_mean']:.3g} times and rates "
                              f"{summary['rate_ratio_mean']:.3g} times what jobs say, on average")
    if "lp_bound_s" in summary:
        lines["LP bound"] = (f"{format_seconds(summary['lp_bound_s'])}, total JCT "
                             f"{summary['ratio_paper']:.3g} times; with half the processing "
                             f"{summary['ratio']:.3g} times")
    return lines


def _queueing(summary: Mapping[str, Any]) -> dict[str, str]:
    if "gpu_utilisation" not in summary:
        return {}
    return {"queueing": _spread(summary, "queue"),
            "GPUs": f"{summary['gpu_utilisation']:.1%} in use, "
                    f"{summary['idle_while_waiting']:.1%} idle while a job waits"}


def print_comparison(comparison: Comparison, folder: str | os.PathLike[str],
                     pictures: Sequence[str] = ()) -> None:
    """Print a comparison, and where its results and pictures are."""
    figures = comparison.table
    first = "over\nfirst" if comparison.baseline is None else "over\nbaseline"
    print_table({comparison.what: figures["label"].tolist()} | {
        first if heading == "over\nfirst" else heading: _aligned(figures[key].tolist())
        for heading, key in _COLUMNS.items()})
    if comparison.note:
        _print_sharing(figures.iloc[:-1], comparison.what)
    if comparison.baseline is not None:
        _print_improvement(comparison.against(), comparison.baseline, comparison.what)
    jobs = figures["jobs_finished"].iloc[-1]  # of the bound: all
    for label, finished in zip(figures["label"], figures["jobs_finished"], strict=True):
        if finished < jobs:
            echo(f"{visible(label)}: only {finished:,} of {jobs:,} jobs finished, and count")
    echo(f"results: {os.fspath(folder)}")
    for path in pictures:
        echo(f"picture: {path}")


def _print_sharing(runs: pd.DataFrame, what: str) -> None:
    """Print what runs do with bandwidth left over; too wide to stand in the table of figures."""
    echo("\nPart of the differences is who gets bandwidth left over, and when rates are decided, "
         "which is\nnot the same here:\n")
    columns = {what: "label", "left over": "leftover", "decided per": "decides_per"}
    print_table({heading: [value or "-" for value in runs[name]]
                 for heading, name in columns.items()}, texts=len(columns))
    echo("")


def _print_improvement(factors: pd.DataFrame, baseline: str, what: str) -> None:
    """Print the means of each class that has coflows, and other figures of all."""
    means = factors.pivot(index="label", columns="class", values="cct_mean")
    overall = factors[factors["class"] == ALL].set_index("label")
    shown = [name for name in (*CLASSES, ALL) if name in means and means[name].notna().any()]
    columns = {f"{name} mean".replace(" ", "\n"): means.loc[overall.index, name]
               for name in shown}
    columns |= {heading: overall[key] for heading, key in _OF_ALL.items()
                if overall[key].notna().any()}
    if not columns:
        return  # jobs have not finished, which is said
    cells = {heading: [f"{value:,.2f}" if math.isfinite(value) else "-" for value in column]
             for heading, column in columns.items()}
    if overall["cct_shorter"].notna().any():
        cells["CCTs\nshorter:longer"] = [
            "-" if math.isnan(shorter) else f"{shorter:,.0f}:{longer:,.0f}" for shorter, longer
            in overall[["cct_shorter", "cct_longer"]].astype(float).to_numpy()]
    echo(f"\nTimes of {visible(baseline)} over those of the others; more than 1 is better than "
         "it:\n")
    print_table({what: overall.index.tolist()} | cells)


def print_table(columns: Mapping[str, Sequence[str]], texts: int = 1) -> None:
    """Print columns by their headings, the first ones as text, the others as figures."""
    console = Console(highlight=False, markup=False, emoji=False)  # names are names
    # Too narrow a terminal breaks lines, and a pipe takes them as long as they are.
    console.width = max(console.width, 100) if console.is_terminal else 160
    table = Table(box=SIMPLE_HEAD if console.is_terminal else None, pad_edge=False,
                  padding=(0, 1 if console.is_terminal else 2, 0, 0))
    for index, heading in enumerate(columns):
        heading = visible(heading, lines=True)
        if index < texts:
            table.add_column(heading, vertical="bottom", overflow="fold")
        else:
            table.add_column(heading, justify="right", vertical="bottom", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*map(visible, row))
    console.print(table)


def _spread(summary: Mapping[str, Any], name: str) -> str:
    if f"{name}_mean_s" not in summary:
        return "not recorded"
    if math.isnan(summary[f"{name}_mean_s"]):
        return "none"
    return ", ".join(f"{label} {format_seconds(summary[f'{name}_{label}_s'])}"
                     for label in ("mean", "p50", "p95", "p99"))


def _deadlines(summary: dict[str, float]) -> dict[str, str]:
    if "deadlines" not in summary:
        return {}
    counted = "".join(f", {summary[key]:,} {key}" for key in ("admitted", "rejected")
                      if key in summary)
    return {"deadlines": f"{summary['deadlines_met']:.1%} of {summary['deadlines']:,} met{counted}"}


def _aligned(values: Sequence[float]) -> list[str]:
    """Return a column with as many decimals as give its smallest value three figures."""
    known = [value for value in values if value > 0 and math.isfinite(value)]
    decimals = max(0, 2 - math.floor(math.log10(min(known)))) if known else 0
    return [f"{value:,.{decimals}f}" if math.isfinite(value) else "-" for value in values]
