"""``netsim sweep``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.completion import listed, setting_to_one, setting_to_several
from netsim.cli.options import (
    EXIT_FAILED,
    EXPERIMENT,
    JSON,
    PLUGINS,
    echo,
    echo_json,
    find_own_modules,
    quiet_option,
    seeds_of,
    settings_of,
    split_at_commas,
)
from netsim.errors import InputError, SpecError

if TYPE_CHECKING:
    from netsim.experiment_file.ranges import Points, Range


@click.command()
@EXPERIMENT
@click.option("--vary", "varied", multiple=True, metavar="KEY=VALUE,...",
              shell_complete=setting_to_several,
              help="Vary a setting over these values, as in network.capacity=10Gbps,40Gbps, or "
                   "over a range, as in observe_interval=1ms..1s or 1ms..1s:log. May be given "
                   "several times. Replaces [sweep.vary] of the file.")
@click.option("--allocator", "allocators", multiple=True, metavar="NAME,...",
              shell_complete=listed("allocators"),
              help="Same as --vary allocator=NAME,..., but what else the file varies stays.")
@click.option("--scheduler", "schedulers", multiple=True, metavar="NAME,...",
              shell_complete=listed("schedulers"),
              help="On a cluster or an edge-cloud, the same for schedulers.")
@click.option("--points", metavar="N",
              help="Number of points to draw from ranges; N:method=random draws independent "
                   "points.")
@click.option("--seeds", metavar="N",
              help="Number of seeds, starting with that of the file; or a list of seeds, as in "
                   "3,5,8.")
@click.option("-j", "--workers", type=click.IntRange(min=1), default=1, show_default=True,
              help="Number of processes, or of Slurm jobs.")
@click.option("--resume/--no-resume", default=True, show_default=True,
              help="Keep existing runs, or remove them and start again.")
@click.option("--backend", type=click.Choice(["local", "dask", "slurm"]), default="local",
              show_default=True, help="Where the runs are computed.")
@click.option("--dask", metavar="ADDRESS",
              help="Address of Dask's scheduler, for --backend dask, as in tcp://10.0.0.1:8786.")
@click.option("--slurm", "options", multiple=True, metavar="KEY=VALUE",
              help="Option of submitit for --backend slurm, as in timeout_min=60. -j is the "
                   "number of jobs that share the runs.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              shell_complete=setting_to_one,
              help="Replace a setting of the file for all runs.")
@click.option("--out", type=click.Path(), metavar="FOLDER",
              help="Folder of the runs; by default sweeps/<name>-<hash>, another for each grid.")
@quiet_option("Print only the folder.")
@JSON
@PLUGINS
@click.pass_context
def sweep(ctx: click.Context, experiment: str, varied: tuple[str, ...],
          allocators: tuple[str, ...], schedulers: tuple[str, ...], points: str | None,
          seeds: str | None, workers: int, resume: bool, backend: str, dask: str | None,
          options: tuple[str, ...], settings: tuple[str, ...], out: str | None, quiet: bool,
          as_json: bool, plugins: bool) -> None:
    """Run an experiment for each combination of settings and seeds.

    A second call computes only the runs that are missing. The exit code is 1 if a run failed.
    """
    from netsim.experiment_file.load import Draft, default_sweep_folder

    _check_backend(backend, dask, options)
    policies = _policies(allocators, schedulers)
    if plugins:
        find_own_modules()
    draft = Draft.read(experiment, plugins=plugins)
    for setting in settings:
        draft.override(setting)
    vary = _grid(varied, policies)
    if not varied:
        for kind, names in policies.items():
            draft.put(f"sweep.vary.{kind}", names, f"--{kind}")
            draft.keys["sweep"]["vary"].pop(f"{kind}.name", None)  # the same key
    grid: dict[str, Any] = {"vary": vary,
                            "seeds": None if seeds is None else seeds_of(seeds),
                            "points": None if points is None else _points(points)}
    usual = default_sweep_folder(draft, **grid)
    # Imported only now, so that mistakes are reported at once.
    from netsim.cli.printing import means_and_ratios, print_failures, print_sweep
    from netsim.studies.sweep import sweep_experiment

    folder = Path(out) if out else usual
    found = sweep_experiment(
        draft, **grid, workers=workers, folder=folder, resume=resume, dask=dask,
        slurm=settings_of(options, "--slurm: ", "an option") if backend == "slurm" else None,
        progress=not quiet,
        reuse=[] if out else sorted(folder.parent.glob("*")))
    if as_json:
        echo_json(means_and_ratios(found))
    elif quiet:
        echo(folder)
    else:
        print_sweep(found)
    print_failures(found)
    ctx.exit(EXIT_FAILED if len(found.failures) else 0)


def _check_backend(backend: str, dask: str | None, options: tuple[str, ...]) -> None:
    if backend == "dask" and dask is None:
        raise InputError("--backend dask needs --dask ADDRESS; `dask scheduler` prints it")
    if backend != "dask" and dask is not None:
        raise InputError("--dask goes with --backend dask")
    if backend != "slurm" and options:
        raise InputError("--slurm goes with --backend slurm")


def _policies(allocators: tuple[str, ...], schedulers: tuple[str, ...]) -> dict[str, list[str]]:
    """The policies to vary, by their kind."""
    if address := next((each for each in schedulers if "://" in each), None):
        raise InputError(f"--scheduler names schedulers of jobs; for the address of Dask's, write "
                         f"--dask {address}")
    return {kind: [name for each in given for name in split_at_commas(each)]
            for kind, given in (("allocator", allocators), ("scheduler", schedulers)) if given}


def _grid(varied: tuple[str, ...], policies: Mapping[str, list[str]]) -> dict[str, Any] | None:
    """Parse ``--vary``; None if it is not given, so that the settings of the file are used.

    Policies are varied beside it.
    """
    from netsim.base.units import parse_value

    grid: dict[str, Any] = {}
    for setting in varied:
        key, equals, values = setting.partition("=")
        if not (equals and key.strip() and values.strip()):
            raise SpecError([f"{setting!r} is nothing to vary; write it as key.path=value,value"])
        if key.strip() in grid:
            raise SpecError([f"{setting!r}: {key.strip()!r} is varied already"])
        grid[key.strip()] = _range(values) or [parse_value(value)
                                               for value in split_at_commas(values)]
    for kind in policies:
        if not {kind, f"{kind}.name"}.isdisjoint(grid):
            raise SpecError([f"--{kind}: {kind!r} is varied already"])
    return {**grid, **policies} if grid else None


def _range(values: str) -> Range | None:
    """Parse ``LOW..HIGH`` and ``LOW..HIGH:log``; None for anything else, such as a path."""
    from netsim.base.units import parse_value
    from netsim.experiment_file.ranges import Range

    ends, colon, scale = values.strip().partition(":")
    low, dots, high = ends.partition("..")
    if not (low.strip() and dots and high.strip()) or "/" in values or "\\" in values:
        return None
    if colon and scale.strip() != "log":
        raise InputError(f"{values.strip()}: unknown scale of a range, {scale.strip()!r}; write "
                         f"{ends}:log for factors, and {ends} for differences")
    return Range(parse_value(low), parse_value(high), log=bool(colon))


def _points(given: str) -> Points:
    """Parse ``N`` and ``N:method=...:seed=...``."""
    from netsim.base.plugins import parse_named
    from netsim.base.units import parse_value
    from netsim.experiment_file.ranges import Points

    options = parse_named(given)
    return Points.of({"count": parse_value(options.pop("name")), **options})
