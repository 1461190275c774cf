"""``netsim run``."""

from __future__ import annotations

import click

from netsim.cli.echo import echo
from netsim.cli.options import experiment_options, overrides, prepared

__all__ = ["run"]


@click.command()
@experiment_options
@click.option("--timeline", is_flag=True,
              help="Also write trace.json: jobs, links and decisions over time, to open in "
                   "ui.perfetto.dev or chrome://tracing.")
def run(experiment: str, settings: tuple[str, ...], seed: int | None, out: str | None,
        format: str, quiet: bool, timeline: bool, plugins: bool) -> None:
    """Run an experiment: a TOML file, or a ready-made one."""
    loaded, folder = prepared(experiment, overrides(settings, seed), out, single=True,
                              plugins=plugins)
    # Only now, so that mistakes in the file are told at once.
    from netsim.cli.tables import print_result
    from netsim.plots.perfetto import save_with_timeline
    from netsim.results.result import asked_for
    from netsim.studies.run import run_experiment

    result = run_experiment(loaded, timeline=timeline, progress=not quiet)
    if timeline:
        save_with_timeline(result, folder,
                           loaded.workload.built if loaded.edge_cloud is None else None, format)
    else:
        result.save(folder, format)
    if quiet:
        echo(folder)
    else:
        print_result(asked_for(result), folder)
