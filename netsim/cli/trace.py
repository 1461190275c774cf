"""``netsim trace``."""

from __future__ import annotations

import click

__all__ = ["trace"]


@click.group()
def trace() -> None:
    """Look into traces."""


@trace.command()
@click.argument("file")
@click.option("--format", metavar="NAME",
              help="What the file is, where its suffix does not tell; see netsim list formats.")
@click.pass_context
def check(ctx: click.Context, file: str, format: str | None) -> None:
    """Say what a trace holds, or all that is wrong in it, by line.

    FILE may be the name of a ready-made workload. The exit code is 2 if something is wrong.
    """
    from netsim.traces import check_trace

    report = check_trace(file, format)
    for line, message in report.problems:
        click.echo(f"{report.path}:{line}: {message}" if line else f"{report.path}: {message}")
    if report.problems:
        ctx.exit(2)
    click.echo(f"{report.path}: {report.format}, nothing wrong")
    width = max(len(label) for label, _ in report.facts)
    for label, value in report.facts:
        click.echo(f"  {label:<{width}}  {value:,.15g}")
