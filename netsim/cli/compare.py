"""``netsim compare``."""

from __future__ import annotations

import json

import click

from netsim.cli.completion import listed
from netsim.cli.echo import JSON, echo, echo_json
from netsim.cli.options import (
    check_picture_file,
    experiment_options,
    overrides,
    prepared,
    split_at_commas,
)


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
    from netsim.cli.tables import print_comparison
    from netsim.plots.bars import save_plot
    from netsim.plots.pictures import check_picture, lacking_on
    from netsim.studies.compare import compare_experiment, with_known_baseline

    if (allocators or schedulers) and not any(_sets_baseline(change) for change in changes):
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


def _sets_baseline(change: str) -> bool:
    return change.partition("=")[0].strip() == "compare.baseline"


def _picture(given: str) -> tuple[str, str]:
    """Split ``[KIND=]FILE`` into the kind and the file."""
    kind, equals, path = given.partition("=")
    return (kind, path) if equals and kind.isidentifier() else ("bars", given)
