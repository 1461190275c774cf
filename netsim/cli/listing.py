"""``netsim list``."""

from __future__ import annotations

import click

__all__ = ["listing"]

KINDS = ("allocators", "patterns", "formats", "topologies", "workloads", "models")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS))
def listing(kind: str) -> None:
    """List what there is to choose from, with a line on each."""
    from netsim.experiments.catalogue import catalogue

    entries = catalogue(kind)
    width = max(map(len, entries))
    for name, summary in entries.items():
        click.echo(f"{name:<{width}}  {summary}")
