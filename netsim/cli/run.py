"""``netsim run``."""

from __future__ import annotations

from pathlib import Path

import click

from netsim.cli.completion import named
from netsim.cli.echo import echo
from netsim.cli.options import experiment_options, overrides, prepared, split_at_commas


@click.command()
@experiment_options
@click.option("--allocator", metavar="NAME", shell_complete=named("allocators"),
              help="Use this allocator instead of that in the file. Options follow a colon, as in "
                   "parrot:work_conservation=none.")
@click.option("--scheduler", metavar="NAME", shell_complete=named("schedulers"),
              help="On a cluster or an edge-cloud, use this scheduler instead, as in "
                   "ff:order=by_size.")
@click.option("--timeline", is_flag=True,
              help="Also write trace.json: jobs, links and decisions over time, to open in "
                   "ui.perfetto.dev or chrome://tracing.")
def run(experiment: str, settings: tuple[str, ...], seed: int | None, out: str | None,
        format: str, quiet: bool, plugins: bool, allocator: str | None, scheduler: str | None,
        timeline: bool) -> None:
    """Run an experiment: a TOML file, or a ready-made one."""
    policies = _single("allocator", allocator) + _single("scheduler", scheduler)
    # Overrides come after the policies, so that --set gives options of the policy that is used.
    loaded, folder = prepared(experiment, policies + overrides(settings, seed), out, single=True,
                              plugins=plugins)
    # Imported only now, so that mistakes in the file are reported at once.
    from netsim.cli.tables import print_result
    from netsim.plots.perfetto import save_with_timeline
    from netsim.results.result import asked_for
    from netsim.results.store import TRACE
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
        print_result(asked_for(result), folder, Path(folder) / TRACE if timeline else None)


def _single(kind: str, given: str | None) -> list[str]:
    """Make the override by which a policy replaces that of the file."""
    from netsim.errors import InputError

    if given is None:
        return []
    if len(split_at_commas(given)) > 1:
        raise InputError(f"--{kind}: a run has one {kind}, not {given!r}; netsim compare takes "
                         "several")
    return [f"{kind}={given}"]
