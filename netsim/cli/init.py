"""``netsim init``."""

from __future__ import annotations

import click

from netsim.cli.echo import echo


@click.command()
@click.argument("file", type=click.Path(), default="experiment.toml")
@click.option("--cluster", "on_cluster", is_flag=True,
              help="For jobs that are scheduled on servers with GPUs.")
@click.option("--edge", "on_edge", is_flag=True,
              help="For jobs on edge servers and a cloud.")
def init(file: str, on_cluster: bool, on_edge: bool) -> None:
    """Write an experiment file with every option explained.

    FILE is experiment.toml by default.
    """
    from netsim.experiment_file.load import write_template

    if on_cluster and on_edge:
        raise click.UsageError("give either --cluster or --edge")
    write_template(file, "cluster" if on_cluster else "edge" if on_edge else "network")
    echo(f"wrote {file}; run it with: netsim run {file}")
