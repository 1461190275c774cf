"""Tables of results on the terminal, with rounded numbers."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rich.console import Console

from netsim.analysis.comparison_table import Columns, over, print_columns
from netsim.analysis.intervals import without_intervals
from netsim.base.units import format_bytes, format_count, format_number, format_seconds
from netsim.cli.options import echo, echo_pairs
from netsim.errors import InputError
from netsim.results.result import shares_links
from netsim.text import bare_names, visible

if TYPE_CHECKING:
    import pandas as pd

    from netsim.results.result import Result
    from netsim.studies.comparison import Comparison
    from netsim.studies.sweep_result import Sweep


def print_result(result: Result, folder: str | os.PathLike[str],
                 timeline: str | os.PathLike[str] | None = None) -> None:
    """Print the summary of one run, and where its results and its timeline are."""
    run, summary = result.run, result.summary()
    bound = summary["lower_bound_total_s"]
    over = f" ({summary['jct_total_s'] / bound:.2f} times the lower bound)" if bound > 0 else ""
    stop = summary["stopped_at_s"]
    stopped = "" if stop is None else f"; stopped at {format_seconds(stop)}"
    jobs = format_count(summary["jobs"], "job")
    lines = {
        **_policies(run),
        **({"cluster": f"{run['cluster']}: {format_count(run['gpus'], 'GPU')}"}
           if "cluster" in run else {}),
        "network": run["network"],
        "workload": f"{run['workload']}: {jobs}" + (
            f", {format_count(summary['coflows'], 'coflow')}, {format_bytes(summary['bytes'])}"
            if summary["coflows"] else ""),
        "finished": f"{summary['jobs_finished']:,} of {jobs}{stopped}",
        "total JCT": _seconds(summary["jct_total_s"] if summary["jobs_finished"] else math.nan)
                     + over,
        "JCT": _spread(summary, "jct"),
        **_queueing(summary), **_at_the_edge(run, summary),
        **_of_coflows(summary), **_of_experts(summary),
        "makespan": _seconds(summary["makespan_s"]),
        "run": ", ".join([*([format_count(summary["decisions"], "decision")]
                            if summary["decisions"] else []),
                          format_count(summary["simpy_events"], "SimPy event"),
                          format_seconds(summary["wall_s"])]),
        "results": os.fspath(folder),
        **({} if timeline is None else
           {"timeline": f"{os.fspath(timeline)}; open it in ui.perfetto.dev"}),
    }
    echo_pairs(lines)


def _policies(run: Mapping[str, Any]) -> dict[str, str]:
    """The policies of a run, each with its options."""
    names = ["scheduler", "placement", "execution", *(["allocator"] if shares_links(run) else [])]
    return {name: ", ".join(bare_names([value])[value] if key == "name" else f"{key} {value}"
                            for key, value in _chosen(name, run[name]).items()
                            if value is not None)
            for name in names if run.get(name) is not None}


def _chosen(kind: str, policy: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a policy; for an execution, only those that were given.

    Others may belong to another execution, as all executions share a class.
    """
    if kind != "execution":
        return policy
    from netsim.engine.registry import EXECUTIONS

    usual: Mapping[str, Any] = {}
    with suppress(InputError):  # a user-defined execution may need options
        usual = EXECUTIONS.to_dict(EXECUTIONS.make(policy["name"], {}))
    return {key: value for key, value in policy.items()
            if key == "name" or value != usual.get(key)}


def _seconds(value: float) -> str:
    """Format a time; ``"-"`` if there is none, as for a run in which nothing has finished."""
    return "-" if math.isnan(value) else format_seconds(value)


def _at_the_edge(run: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, str]:
    if "cloud_chunks" not in summary:
        return {}
    lines = {"chunks": f"{summary['chunks']:,}, of which {summary['cloud_chunks']:,} in the cloud; "
                       f"{summary['preemptions']:,} preemptions",
             "workers": f"{summary['utilisation']:.1%} of their time in training"}
    if summary["ps_shortages"]:
        lines["PSs"] = (f"{summary['ps_shortages']:,} times none was free at the edge, and one in "
                        "the cloud helped out")
    # Whole jobs have no chunks with estimates.
    if run["execution"]["transport"] != "constant" and "delay_ratio_mean" in summary:
        lines["estimates"] = (f"delays {summary['delay_ratio_mean']:.3g} times and rates "
                              f"{summary['rate_ratio_mean']:.3g} times what jobs say, on average")
    if "lp_bound_s" in summary:
        lines["LP bound"] = format_seconds(summary["lp_bound_s"]) + (
            "" if math.isnan(summary["ratio"]) else
            f", total JCT {summary['ratio_paper']:.3g} times; with half the processing "
            f"{summary['ratio']:.3g} times")
    return lines


def _queueing(summary: Mapping[str, Any]) -> dict[str, str]:
    lines = {"queueing": _spread(summary, "queue")} if "queue_mean_s" in summary else {}
    if "gpu_utilisation" in summary:
        lines["GPUs"] = (f"{summary['gpu_utilisation']:.1%} in use, "
                         f"{summary['idle_while_waiting']:.1%} idle while a job waits")
    if summary.get("preemptions") and "useful_gpu_s" in summary:
        lines["preempted"] = (
            f"{summary['preemptions']:,.0f} times; of the GPU-seconds held, "
            f"{summary['useful_gpu_s']:,.5g} useful, {summary['lost_gpu_s']:,.5g} lost, "
            f"{summary['overhead_gpu_s']:,.5g} to save, move and restore")
    return lines


def _of_coflows(summary: Mapping[str, Any]) -> dict[str, str]:
    """The lines on coflows; a run on an edge-cloud has no table of them."""
    if "cloud_chunks" in summary:
        return {}
    return {"CCT": _spread(summary, "cct"), **_deadlines(summary)}


def _of_experts(summary: Mapping[str, Any]) -> dict[str, str]:
    if not summary.get("dropped_tokens"):
        return {}
    dropped, routed = summary["dropped_tokens"], summary["routed_tokens"]
    return {"tokens": f"{dropped:,} of {routed:,} dropped by experts ({dropped / routed:.1%})"}


def print_comparison(comparison: Comparison, folder: str | os.PathLike[str],
                     pictures: Sequence[str] = ()) -> None:
    """Print a comparison, and where its results and pictures are."""
    for part in comparison.parts():
        if isinstance(part, str):
            echo(part)
        else:
            print_table(*part)
    echo(f"results: {os.fspath(folder)}")
    for path in pictures:
        echo(f"picture: {path}")


def print_table(columns: Columns, texts: int = 1) -> None:
    """Print columns by their headings, the first ones as text, the others as figures."""
    console = Console(highlight=False, markup=False, emoji=False)  # names are names
    # A narrow terminal breaks lines itself, and a pipe takes long lines.
    console.width = max(console.width, 100) if console.is_terminal else 160
    print_columns(console, columns, texts)


def _spread(summary: Mapping[str, Any], name: str) -> str:
    if f"{name}_mean_s" not in summary:
        return "not recorded"
    if math.isnan(summary[f"{name}_mean_s"]):
        return "none"
    return ", ".join(f"{label} {format_seconds(summary[f'{name}_{label}_s'])}"
                     for label in ("mean", "p50", "p95", "p99"))


def _deadlines(summary: Mapping[str, Any]) -> dict[str, str]:
    if "deadlines" not in summary:
        return {}
    counted = "".join(f", {summary[key]:,} {key}" for key in ("admitted", "rejected")
                      if key in summary)
    return {"deadlines": f"{summary['deadlines_met']:.1%} of {summary['deadlines']:,} met{counted}"}


# --- sweeps --------------------------------------------------------------------------------
def means_and_ratios(sweep: Sweep) -> pd.DataFrame:
    """Join the means of a sweep and, if there are any, the ratios."""
    if not len(sweep.table):
        return sweep.table
    means, ratios = sweep.means(), sweep.ratios_if_any()
    return means if ratios is None else means.merge(
        ratios, on=list(sweep.columns), how="left", sort=False, suffixes=("", "_of_ratios"))


def print_sweep(sweep: Sweep) -> None:
    """Print means and ratios of a sweep with their intervals, and where its files are."""
    sweep = sweep.as_shown()
    if len(sweep.table):
        means = sweep.means()
        columns = {visible(name).replace(".", "\n"): [str(value) for value in means[name]]
                   for name in sweep.columns}
        columns["runs"] = [str(count) for count in means["runs"]]
        columns["total\nJCT (s)"] = ["-" if math.isnan(value) else format_number(value)
                                     for value in means["jct_total_s"]]
        columns["over\nbound"] = _with_interval(means, "over_lower_bound")
        if (ratios := sweep.ratios_if_any()) is not None:
            placed = means.merge(ratios, on=list(sweep.columns), how="left", sort=False)
            columns[over(str(ratios["baseline"].iloc[0]))] = _with_interval(placed, "ratio")
            columns["below:above"] = [
                "-" if math.isnan(below) else f"{below:.0f}:{above:.0f}" for below, above
                in placed[["below", "above"]].astype(float).to_numpy()]
        print_table(columns, len(sweep.columns))
        echo(without_intervals(means) or
             "means over seeds, with 95 % confidence intervals; geometric means of ratios" + (
                 "" if ratios is None else ", pair by pair, and how many are below 1 and above"))
        _say_what_is_left_out(sweep)
    echo(f"results: {sweep.folder}")


def _say_what_is_left_out(sweep: Sweep) -> None:
    stopped = (sweep.table["jobs_finished"] < sweep.table["jobs"]).sum()
    if stopped:
        echo(f"{stopped:,} of {format_count(len(sweep.table), 'run')} were stopped before all jobs "
             "had finished: there are no means with them")


def _with_interval(table: pd.DataFrame, name: str) -> list[str]:
    return ["-" if math.isnan(mean) else
            f"{mean:.3f} [{low:.3f}, {high:.3f}]" if low < high else f"{mean:.3f}"
            for mean, low, high in zip(table[name], table[f"{name}_low"], table[f"{name}_high"],
                                       strict=True)]


def print_failures(sweep: Sweep) -> None:
    """Print on standard error which runs failed, why, and where the details are."""
    for row in sweep.failures.to_dict("records"):
        which = ", ".join(f"{name} {row[name]}" for name in (*sweep.columns, "seed"))
        echo(f"failed: {visible(which)}: {' '.join(row['error'].split())}", err=True)
    if len(sweep.failures):
        every = format_count(sweep.missing + len(sweep.table), "run")
        echo(f"{len(sweep.failures):,} of {every} failed; more "
             f"in {sweep.folder / 'failures.csv'}, their experiments in "
             f"{sweep.folder / 'failed'}", err=True)


def print_claims(claims: pd.DataFrame) -> None:
    """Print the claims of a paper beside the measured values."""
    columns = ("claim", "paper", "measured", "holds_on", "verdict")
    print_table({name.replace("_", " "): claims[name].tolist() for name in columns},
                texts=len(columns))
    echo("measured: mean over seeds, with its 95 % confidence interval; geometric of ratios")
