"""Tables of sweeps on the terminal, with rounded numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from netsim.analysis.comparison_text import over
from netsim.analysis.intervals import without_intervals
from netsim.cli.echo import echo
from netsim.cli.tables import print_table
from netsim.text import visible
from netsim.units import format_count, format_number

if TYPE_CHECKING:
    import pandas as pd

    from netsim.studies.sweep_result import Sweep


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
