"""``netsim trace``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netsim.cli.completion import NETWORK_FILES, WORKLOAD_FILES, named
from netsim.cli.echo import JSON, echo, echo_json
from netsim.cli.options import (
    FORMAT,
    PLUGINS,
    SET,
    format_options,
    tell_replaced,
    with_plugins,
)

if TYPE_CHECKING:
    from netsim.traces import TraceReport


@click.group()
def trace() -> None:
    """Check and convert traces."""


@trace.command()
@click.argument("file", shell_complete=named("jobs", suffixes=WORKLOAD_FILES))
@FORMAT
@SET
@JSON
@PLUGINS
@click.pass_context
def check(ctx: click.Context, file: str, format: str | None, settings: tuple[str, ...],
          as_json: bool, plugins: bool) -> None:
    """Print a summary of a trace, or its errors by line.

    For a table of flows, the summary says which columns are read, and which ones are not. FILE may
    be the name of a ready-made workload. The exit code is 2 if there are errors.
    """
    from netsim.traces import check_trace

    with with_plugins(plugins, file):
        report = check_trace(file, format, **format_options(settings, format))
    if as_json:
        echo_json(asdict(report) | {"facts": dict(report.facts)})
        ctx.exit(2 if report.problems else 0)
    for line, message in report.problems:
        echo(f"{_place(report.path, line)}: {message}")
    if report.problems:
        ctx.exit(2)
    echo(f"{report.path}: {report.format}, nothing wrong")
    for line, message in report.notices:
        echo(f"{_place(report.path, line)}: notice: {message}")
    told = {**_columns(report), **{label: f"{value:,.15g}" for label, value in report.facts}}
    width = max(map(len, told))
    for label, text in told.items():
        echo(f"  {label:<{width}}  {text}")


def _place(path: str | Path, line: int | None) -> str:
    """Write a place in a file."""
    return f"{path}:{line}" if line else str(path)


def _columns(report: TraceReport) -> dict[str, str]:
    """The lines on the columns of a table of flows."""
    if not report.columns:
        return {}
    read = [name if name == option else f"{name} as {option}"
            for option, name in report.columns.items()]
    lines = {"columns read": ", ".join(read)
             + ("" if "start" in report.columns else "; all flows start at 0")}
    return lines | ({"not used": ", ".join(report.unused)} if report.unused else {})


@trace.command()
@click.argument("source", shell_complete=named("jobs", suffixes=WORKLOAD_FILES))
@click.argument("target", type=click.Path())
@FORMAT
@click.option("--to", metavar="NAME", help="Format to write, if the suffix of TARGET does not "
                                           "show it: json, coflow-benchmark, chakra or "
                                           "module:function.")
@click.option("--network", metavar="NAME",
              shell_complete=named("networks", suffixes=NETWORK_FILES),
              help="Network for jobs without hosts: they are placed on this ready-made network, or "
                   "this file.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of random draws and placements.")
@SET
@PLUGINS
def convert(source: str, target: str, format: str | None, to: str | None, network: str | None,
            seed: int | None, settings: tuple[str, ...], plugins: bool) -> None:
    """Write a workload in another format.

    The ending of TARGET says which: .json, explicit; .txt, the coflow benchmark; .et, Chakra.
    SOURCE may be the name of a ready-made workload. An existing TARGET is replaced, and named.
    """
    from netsim.studies.convert import convert as converted
    from netsim.traces.training.chakra_writer import chakra_file
    from netsim.units import format_count

    chakra = (to or target).endswith(("chakra", ".et"))
    tell_replaced(chakra_file(target, 0) if chakra else target, "TARGET")
    with with_plugins(plugins, source, network):
        workload = converted(source, target, format=format, to=to, network=network, seed=seed,
                             **format_options(settings, format))
    echo(f"wrote {target}: {format_count(len(workload), 'job')}")
