"""``netsim topo``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from netsim.cli.completion import NETWORK_FILES, named
from netsim.cli.echo import JSON, echo, echo_json
from netsim.cli.options import check_picture_file, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from netsim.network import Topology


@click.group()
def topo() -> None:
    """Describe networks."""


@topo.command()
@click.argument("network", shell_complete=named("networks", suffixes=NETWORK_FILES))
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Set an option of the network, as in capacity=40Gbps or directed=false.")
@click.option("--plot", type=click.Path(), metavar="FILE",
              help="Draw the network as a .png, .pdf or .svg.")
@JSON
def show(network: str, settings: tuple[str, ...], plot: str | None, as_json: bool) -> None:
    """Print hosts, links and bandwidths of a network.

    NETWORK is the name of a ready-made network, see netsim list topologies, or a .toml, .graphml,
    .gml or .json file; a .topo file of htsim, a topology .txt of the HPCC simulator or of SimAI, or
    a topology .xml of NCCL.
    """
    from netsim.network import describe_network, read_network
    from netsim.units import question_units

    if plot is not None:
        check_picture_file(plot, "--plot")
    with question_units():
        found = read_network(network, **settings_of(settings))
    facts = describe_network(found)
    if plot is not None:
        from netsim.plots.bars import save_plot

        save_plot(found.plot(), plot)
    if as_json:
        echo_json(facts)
    else:
        _print(_lines(found, facts) | ({} if plot is None else {"picture": plot}))


def _print(lines: dict[str, str]) -> None:
    """Print lines in two columns."""
    from netsim.text import visible

    width = max(map(len, lines))
    for name, text in lines.items():
        echo(f"{name:<{width}}  {visible(text)}")


def _lines(found: Topology, facts: dict[str, Any]) -> dict[str, str]:
    """The properties of a network, by heading."""
    from netsim.units import format_rate

    low, high = (format_rate(facts[f"capacity_{end}"]) for end in ("min", "max"))
    ratio = facts["oversubscription"]
    return {
        "network": facts["name"],
        "hosts": f"{facts['hosts']:,}",
        "switches": f"{facts['switches']:,}" + (
            f" in {facts['layers']} layers" if facts["layers"] > 1 else ""),
        "links": f"{facts['links']:,}, one each way",
        "capacity": low if low == high else f"{low} to {high}",
        "bisection": f"{format_rate(facts['bisection_bandwidth'])} ({facts['bisection_method']})",
        "oversubscription": "no switches" if ratio is None else f"{ratio:.4g}:1",
    } | _of_wire(found)


def _of_wire(network: Topology) -> dict[str, str]:
    """What a network defines of host names, latency, efficiency, packets and overhead."""
    from netsim.units import format_seconds

    names, wire = network.host_names, network.wire
    packets = {wire.packet, *wire.link_packets.values()} - {None}
    shown = {
        "names of hosts": f"{names[0]} to {names[-1]}" if names else "",
        "latency": _range(wire.latency, format_seconds) if wire.latency.any() else "",
        "efficiency": _range(wire.efficiency, "{:.4g}".format) if (wire.efficiency < 1).any()
        else "",
        "packets": " or ".join(sorted(f"{each.payload:g} B and a header of {each.header:g} B"
                                      for each in packets if each is not None)),
        "overhead": format_seconds(wire.overhead) if wire.overhead else ""}
    return {name: text for name, text in shown.items() if text}


def _range(values: NDArray[np.float64], said: Callable[[float], str]) -> str:
    """Write the range of the links' values."""
    low, high = said(float(values.min())), said(float(values.max()))
    return low if low == high else f"{low} to {high} per link"
