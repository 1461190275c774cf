"""Sweeps as tables for people; the files have all figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from netsim.cli.tables import print_table

if TYPE_CHECKING:
    import pandas as pd

    from netsim.experiments.sweep_result import Sweep

__all__ = ["print_claims", "print_failures", "print_sweep"]


def print_sweep(sweep: Sweep) -> None:
    """Print means and ratios of a sweep with their intervals, and where its files are."""
    if len(sweep.table):
        means = sweep.means(["jct_total_s", "over_lower_bound"])
        columns = {name.replace(".", "\n"): [str(value) for value in means[name]]
                   for name in sweep.columns}
        columns["runs"] = [str(count) for count in means["runs"]]
        columns["total\nJCT (s)"] = [f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"
                                     for value in means["jct_total_s"]]
        columns["over\nbound"] = _with_interval(means, "over_lower_bound")
        if sweep.columns:
            ratios = sweep.ratios()
            placed = means.merge(ratios, on=list(sweep.columns), how="left", sort=False)
            columns[f"over\n{ratios_of(sweep)}"] = _with_interval(placed, "ratio")
        print_table(columns, len(sweep.columns))
        click.echo("means over seeds, with 95 % confidence intervals; ratios pair by pair")
    click.echo(f"results: {sweep.folder}")


def ratios_of(sweep: Sweep) -> str:
    """Return what ratios are to."""
    of = "allocator" if "allocator" in sweep.columns else sweep.columns[0]
    return str(sweep.table[of].iloc[0])


def _with_interval(table: pd.DataFrame, name: str) -> list[str]:
    return [f"{mean:.3f} [{low:.3f}, {high:.3f}]" if low < high else f"{mean:.3f}"
            for mean, low, high in zip(table[name], table[f"{name}_low"], table[f"{name}_high"],
                                       strict=True)]


def print_failures(sweep: Sweep) -> None:
    """Say on standard error which runs failed, why, and where their specs are."""
    for row in sweep.failures.to_dict("records"):
        which = ", ".join(f"{name} {row[name]}" for name in (*sweep.columns, "seed"))
        click.echo(f"failed: {which}: {row['error']}", err=True)
    if len(sweep.failures):
        click.echo(f"{len(sweep.failures)} of {sweep.missing + len(sweep.table)} runs failed; "
                   f"their specs: {sweep.folder / 'failures.csv'}", err=True)


def print_claims(claims: pd.DataFrame) -> None:
    """Print what is claimed, and what has come out."""
    columns = ("claim", "paper", "measured", "verdict")
    print_table({name: claims[name].tolist() for name in columns}, texts=len(columns))
    seeds = claims["seeds"].max()
    click.echo(f"measured: mean [least, most] of {seeds} seeds")
