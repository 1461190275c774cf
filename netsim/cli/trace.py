"""``netsim trace``."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["trace"]


@click.group()
def trace() -> None:
    """Look into traces, and convert them."""


_FORMAT = click.option("--format", metavar="NAME", help="What the file is, where its suffix does "
                       "not tell; see netsim list formats.")
_SET = click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                    help="An option of the format, as in megabyte=1MiB.")


@trace.command()
@click.argument("file")
@_FORMAT
@_SET
@click.pass_context
def check(ctx: click.Context, file: str, format: str | None, settings: tuple[str, ...]) -> None:
    """Say what a trace holds, or all that is wrong in it, by line.

    FILE may be the name of a ready-made workload. The exit code is 2 if something is wrong.
    """
    from netsim.traces import check_trace

    report = check_trace(file, format, **_options(settings))
    for line, message in report.problems:
        click.echo(f"{report.path}:{line}: {message}" if line else f"{report.path}: {message}")
    if report.problems:
        ctx.exit(2)
    click.echo(f"{report.path}: {report.format}, nothing wrong")
    for line, message in report.notices:
        click.echo(f"{report.path}:{line}: notice: {message}")
    width = max(len(label) for label, _ in report.facts)
    for label, value in report.facts:
        click.echo(f"  {label:<{width}}  {value:,.15g}")


@trace.command()
@click.argument("source")
@click.argument("target")
@_FORMAT
@click.option("--to", metavar="NAME", help="What to write, json or coflow-benchmark, where the "
              "target's suffix does not tell.")
@click.option("--network", metavar="NAME", help="Where to place jobs that do not say their "
              "hosts: a ready-made network, or a file.")
@click.option("--seed", type=click.IntRange(min=0), help="Of what is drawn and placed.")
@_SET
def convert(source: str, target: str, format: str | None, to: str | None, network: str | None,
            seed: int | None, settings: tuple[str, ...]) -> None:
    """Write a workload in another format: .json is explicit, .txt the coflow benchmark.

    SOURCE may be the name of a ready-made workload. A TARGET that is there is replaced.
    """
    from netsim.experiments.convert import convert as converted

    workload = converted(source, target, format=format, to=to, network=network, seed=seed,
                         **_options(settings))
    click.echo(f"wrote {target}: {len(workload):,} jobs")


def _options(settings: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of ``--set``, all of them names that some format has."""
    from netsim.errors import InputError, UnknownNameError
    from netsim.traces import FORMATS
    from netsim.units import parse_value

    known = {name for form in FORMATS.values() for name in form.options}
    options = {}
    for setting in settings:
        name, equals, value = (part.strip() for part in setting.partition("="))
        if not equals:
            raise InputError(f"{setting!r} is not a setting; write it as KEY=VALUE")
        if name not in known:
            raise UnknownNameError("option", name, known)
        options[name] = parse_value(value)
    return options
