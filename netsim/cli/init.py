"""``netsim init``."""

from __future__ import annotations

import click

__all__ = ["init"]


@click.command()
@click.argument("file", type=click.Path(), default="experiment.toml")
def init(file: str) -> None:
    """Write an experiment file with every option explained, to FILE or experiment.toml."""
    from netsim.experiments.files import write_template

    write_template(file)
    click.echo(f"wrote {file}; run it with: netsim run {file}")
