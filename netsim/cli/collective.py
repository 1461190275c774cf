"""``netsim collective``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from netsim.cli.completion import NETWORK_FILES, named
from netsim.cli.echo import JSON, echo, echo_json
from netsim.cli.options import check_picture_file, find_own_modules

if TYPE_CHECKING:
    import pandas as pd


@click.command()
@click.argument("name", metavar="COLLECTIVE", shell_complete=named("patterns"))
@click.option("--on", "network", required=True, metavar="NETWORK",
              shell_complete=named("networks", suffixes=NETWORK_FILES),
              help="The name of a ready-made network, or a file; see netsim list topologies.")
@click.option("--ranks", type=click.IntRange(min=1), help="Number of ranks; by default one per "
                                                          "host.")
@click.option("--bytes", "--to", "last", default="1GiB", show_default=True, metavar="SIZE",
              help="Last size.")
@click.option("--from", "first", default="8B", show_default=True, metavar="SIZE",
              help="First size.")
@click.option("--factor", type=float, default=2.0, show_default=True, help="Factor between two "
                                                                           "sizes.")
@click.option("--single", is_flag=True, help="Only run the last size.")
@click.option("--algorithm", metavar="NAME",
              help="Algorithm, such as ring, tree or direct; auto (as NCCL would choose) or "
                   "fastest; or an .xml file with a program of MSCCL.")
@click.option("--form", default="steps", show_default=True,
              help="One coflow per step (steps), message (messages) or phase (aggregate).")
@click.option("--servers", type=click.IntRange(min=1),
              help="Number of servers of the ranks, for auto. By default that of the network, if "
                   "it has servers, else one per rank.")
@click.option("--set", "options", multiple=True, metavar="OPTION=VALUE",
              help="Set another option of the pattern, such as chunks=4 or group=8.")
@click.option("--allocator", default="maxmin", show_default=True,
              shell_complete=named("allocators"), help="Allocator that shares links.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@JSON
@click.option("--plot", type=click.Path(), metavar="FILE",
              help="Draw time and busbw by size as a .png, .pdf or .svg.")
def collective(name: str, network: str, ranks: int | None, last: str, first: str, factor: float,
               single: bool, algorithm: str | None, form: str, servers: int | None,
               options: tuple[str, ...], allocator: str, as_csv: bool, as_json: bool,
               plot: str | None) -> None:
    """Measure a collective over a range of sizes, as nccl-tests do.

    Each size is --factor times the one before, from --from to --bytes, which is always included.

    COLLECTIVE is all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, send-recv
    or barrier. Nothing else uses the network. GB/s are 1e9 bytes per second.
    """
    from netsim.errors import InputError
    from netsim.network import read_network
    from netsim.studies.collective_times import collective_times, sizes_between
    from netsim.units import question_units

    find_own_modules()
    if plot is not None:
        check_picture_file(plot, "--plot")
    if as_csv and as_json:
        raise InputError("give either --csv or --json")
    sizes = [last] if single else sizes_between(first, last, factor)
    with question_units():
        found = read_network(network)
    table = collective_times(name, found, ranks, sizes, algorithm=algorithm, form=form,
                             servers=servers, allocator=allocator, **_options(options))
    if as_csv:
        echo(table.to_csv(index=False).rstrip("\n"))
    elif as_json:
        echo_json(table)
    else:
        _print(table)
    if plot is not None:
        from netsim.plots.bars import save_plot
        from netsim.plots.collectives import collective_curves

        save_plot(collective_curves({found.name: table}), plot)
        if not (as_csv or as_json):
            echo(f"\npicture: {plot}")


def _options(given: tuple[str, ...]) -> dict[str, Any]:
    from netsim.errors import InputError
    from netsim.units import parse_value

    found = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign or not name.isidentifier():
            raise InputError(f"--set must be OPTION=VALUE, such as chunks=4, not {each!r}")
        if name in ("on", "ranks", "sizes", "algorithm", "form", "servers", "allocator", "name"):
            raise InputError(f"--set cannot give {name}; use the option of the command")
        found[name] = parse_value(value)
    return found


def _print(table: pd.DataFrame) -> None:
    import math

    from netsim.cli.tables import print_table
    from netsim.units import format_seconds, format_size

    def in_gb(name: str) -> list[str]:
        return ["" if math.isnan(rate) else f"{rate / 1e9:.2f}" for rate in table[name]]

    print_table({"size": [format_size(size) for size in table["bytes"]],
                 "algorithm": list(table["algorithm"]),
                 "time": [format_seconds(time) for time in table["time_s"]],
                 "algbw GB/s": in_gb("algbw"), "busbw GB/s": in_gb("busbw")}, texts=2)
    if len(table) > 1 and not math.isnan(mean := float(table["busbw"].mean())):
        echo(f"\nmean busbw: {mean / 1e9:.2f} GB/s")
    if "why" in table:
        first = table["algorithm"] != table["algorithm"].shift()
        for size, why in zip(table["bytes"][first], table["why"][first], strict=True):
            echo(f"\n{format_size(size)}: {why}")
