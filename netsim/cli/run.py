"""``netsim run``."""

from __future__ import annotations

import click

from netsim.cli.options import experiment_options, overrides, prepared

__all__ = ["run"]


@click.command()
@experiment_options
def run(experiment: str, settings: tuple[str, ...], seed: int | None, out: str | None,
        quiet: bool) -> None:
    """Run an experiment: a TOML file, or the name of a ready-made one."""
    from netsim.cli.tables import print_result
    from netsim.experiments.run import run_experiment

    loaded, folder = prepared(experiment, overrides(settings, seed), out, single=True)
    result = run_experiment(loaded, progress=not quiet)
    result.save(folder)
    if quiet:
        click.echo(folder)
    else:
        print_result(result, folder)
