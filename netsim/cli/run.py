"""netsim run and netsim compare."""

from __future__ import annotations

import json
from pathlib import Path

import click

from netsim.cli.completion import listed, named
from netsim.cli.options import (
    JSON,
    check_picture_file,
    echo,
    echo_json,
    experiment_options,
    overrides,
    prepared,
    split_at_commas,
)
from netsim.errors import InputError


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
    from netsim.cli.printing import print_result
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
    if given is None:
        return []
    if len(split_at_commas(given)) > 1:
        raise InputError(f"--{kind}: a run has one {kind}, not {given!r}; netsim compare takes "
                         "several")
    return [f"{kind}={given}"]


@click.command()
@experiment_options
@click.option("--allocator", "allocators", multiple=True, metavar="NAME,...",
              shell_complete=listed("allocators"),
              help="Compare these allocators instead of those in the file. Options follow a "
                   "colon, as in parrot:work_conservation=none.")
@click.option("--scheduler", "schedulers", multiple=True, metavar="NAME,...",
              shell_complete=listed("schedulers"),
              help="On a cluster, compare these schedulers instead, as in ff:order=by_size.")
@click.option("--baseline", metavar="NAME",
              help="Compare the others with this one, also by class of coflow. NAME is its label "
                   "in the table. By default, the allocator or scheduler of the file if it is "
                   "compared, else the first one.")
@click.option("--plot", "plots", multiple=True, metavar="[KIND=]FILE",
              help="Draw a .png, .pdf or .svg. May be given several times. KIND is bars (default: "
                   "total JCTs), cdf (distribution of JCTs), cct (distribution of CCTs), classes "
                   "(mean CCTs over those of the baseline, by class of coflow), slowdown (by "
                   "class), timeline (active jobs and coflows, or workers of an edge-cloud), "
                   "utilisation (of links, or of workers of an edge-cloud, over time) or usage "
                   "(on a cluster: GPUs held and jobs waiting).")
@JSON
def compare(experiment: str, settings: tuple[str, ...], seed: int | None, out: str | None,
            format: str, quiet: bool, plugins: bool, allocators: tuple[str, ...],
            schedulers: tuple[str, ...], baseline: str | None, plots: tuple[str, ...],
            as_json: bool) -> None:
    """Compare allocators, or schedulers, in one experiment."""
    changes = overrides(settings, seed) + _compared(allocators, schedulers)
    if baseline is not None:
        changes.append(f"compare.baseline={json.dumps(baseline)}")
    loaded, folder = prepared(experiment, changes, out, single=False, plugins=plugins)
    # Imported only now, so that mistakes in the file are reported at once.
    from netsim.cli.printing import print_comparison
    from netsim.plots.bars import save_plot
    from netsim.plots.pictures import check_picture, lacking_on
    from netsim.studies.compare import compare_experiment, with_known_baseline

    names_baseline = any(change.partition("=")[0].strip() == "compare.baseline"
                         for change in changes)
    if (allocators or schedulers) and not names_baseline:
        loaded = with_known_baseline(loaded)
    pictures = [_picture(given) for given in plots]
    lacking = lacking_on("edge-cloud" if loaded.edge_cloud is not None else
                         "cluster" if loaded.cluster is not None else "network",
                         loaded.shares_links)
    for kind, path in pictures:
        check_picture(kind, "comparison", record=loaded.record, lacking=lacking)
        check_picture_file(path, "--plot")
    comparison = compare_experiment(loaded, progress=not quiet)
    comparison.save(folder, format)
    for kind, path in pictures:
        save_plot(comparison.plot(kind), path)
    if as_json:
        echo_json(comparison.table)
    elif quiet:
        echo(folder)
    else:
        print_comparison(comparison, folder, [path for _, path in pictures])


def _compared(allocators: tuple[str, ...], schedulers: tuple[str, ...]) -> list[str]:
    """Make overrides that replace the policies that the file compares."""
    given = {"allocators": allocators, "schedulers": schedulers}
    if not any(given.values()):
        return []
    names = {what: [name for each in values for name in split_at_commas(each)]
             for what, values in given.items()}
    return [f"compare.{what}={json.dumps(listed)}" for what, listed in names.items()]


def _picture(given: str) -> tuple[str, str]:
    """Split ``[KIND=]FILE`` into the kind and the file."""
    kind, equals, path = given.partition("=")
    return (kind, path) if equals and kind.isidentifier() else ("bars", given)
