"""``netsim list``."""

from __future__ import annotations

import click

from netsim.cli.echo import echo

__all__ = ["listing"]

KINDS = ("allocators", "schedulers", "placements", "executions", "transports",
         "predictors", "patterns", "formats", "models", "topologies", "workloads")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS))
def listing(kind: str) -> None:
    """List the names of one kind, with a one-line summary each."""
    from netsim.experiment_file.catalogue import catalogue
    from netsim.text import visible

    entries = catalogue(kind)
    width = max(map(len, entries))
    for name, summary in entries.items():
        echo(f"{name:<{width}}  {visible(summary)}")
