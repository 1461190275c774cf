"""Commands that look and prepare: list, topo, trace, data, init, schema, warm-up."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.base.files import cache_folder
from netsim.cli.completion import NETWORK_FILES, WORKLOAD_FILES, named, of_kind
from netsim.cli.options import (
    FORMAT,
    JSON,
    PLUGINS,
    SET,
    echo,
    echo_json,
    echo_pairs,
    find_own_modules,
    format_options,
    plot_option,
    quiet_option,
    settings_of,
    tell_replaced,
    with_plugins,
)
from netsim.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable

    from netsim.base.arrays import Floats
    from netsim.network import Topology
    from netsim.traces import TraceReport


# --- netsim list ---------------------------------------------------------------------------

KINDS = {
    "allocators": "which bandwidth each flow gets",
    "schedulers": "which job starts when, on GPUs or at the edge",
    "placements": "which GPUs a job gets",
    "executions": "how the jobs of a cluster run once they are placed",
    "transports": "how data reaches the workers of an edge-cloud",
    "predictors": "how long jobs will run",
    "patterns": "what the ranks of a job send to each other",
    "formats": "files of workloads",
    "models": "neural networks that jobs train",
    "gpus": "kinds of GPUs on which they compute",
    "llms": "large language models, whose training is generated",
    "topologies": "kinds of networks, and ready-made ones",
    "workloads": "ready-made workloads and experiments",
}


class _Kind(click.Choice[str]):
    """A kind of things; an unknown one is refused like every other unknown name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in KINDS:
            raise UnknownNameError("kind", value, KINDS)
        return str(value)


@click.command("list")
@click.argument("kind", type=_Kind(KINDS), metavar="[KIND]", required=False)
@click.argument("name", required=False, shell_complete=of_kind)
@JSON
def listing(kind: str | None, name: str | None, as_json: bool) -> None:
    """List kinds of things, names of a kind, or options of a name."""
    find_own_modules()
    found: dict[str, Any] = KINDS
    if kind is not None:
        from netsim.experiment_file.catalogue import catalogue, details

        found = catalogue(kind) if name is None else details(kind, name)
    if as_json:
        echo_json(found)
    elif name is None:
        echo_pairs(found)
    else:
        _describe(found)


def _describe(found: dict[str, Any]) -> None:
    """Print the summary of a name, its options with their defaults, and its documentation."""
    echo(f"{found['name']}: {found['summary']}")
    if found.get("options"):
        echo("\noptions, and their defaults:")
        echo_pairs(found["options"], "  ")
    if found.get("doc"):
        echo(f"\n{found['doc']}")


# --- netsim topo ---------------------------------------------------------------------------
@click.group()
def topo() -> None:
    """Describe networks."""


@topo.command()
@click.argument("network", shell_complete=named("networks", suffixes=NETWORK_FILES))
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Set an option of the network, as in capacity=40Gbps or directed=false.")
@plot_option("the network")
@JSON
def show(network: str, settings: tuple[str, ...], plot: str | None, as_json: bool) -> None:
    """Print hosts, links and bandwidths of a network.

    NETWORK is the name of a ready-made network, see netsim list topologies, or a .toml, .graphml,
    .gml or .json file; a .topo file of htsim, a topology .txt of the HPCC simulator or of SimAI, a
    topology .xml of NCCL, a platform .xml of SimGrid, or an infrastructure .json of InfraGraph.
    """
    from netsim.base.units import question_units
    from netsim.network import describe_network, read_network

    with question_units():
        found = read_network(network, **settings_of(settings))
    facts = describe_network(found)
    if plot is not None:
        from netsim.plots.bars import save_plot

        save_plot(found.plot(), plot)
    if as_json:
        echo_json(facts)
    else:
        echo_pairs(_lines(found, facts) | ({} if plot is None else {"picture": plot}))


def _lines(found: Topology, facts: dict[str, Any]) -> dict[str, str]:
    """The properties of a network, by heading."""
    from netsim.base.units import format_rate

    low, high = (format_rate(facts[f"capacity_{end}"]) for end in ("min", "max"))
    ratio, hosts, links = facts["oversubscription"], f"{facts['hosts']:,}", f"{facts['links']:,}"
    capacity = {"capacity": low if low == high else f"{low} to {high}"}
    if facts["switches"] is None:  # a network without a graph
        return {"network": facts["name"], "hosts": hosts, "links": links} | capacity | _of_wire(
            found)
    return {
        "network": facts["name"],
        "hosts": hosts,
        "switches": f"{facts['switches']:,}" + (
            f" in {facts['layers']} layers" if facts["layers"] > 1 else ""),
        "links": f"{links}, one each way",
        **capacity,
        "bisection": f"{format_rate(facts['bisection_bandwidth'])} ({facts['bisection_method']})",
        "oversubscription": "no switches" if ratio is None else f"{ratio:.4g}:1",
    } | _of_wire(found)


def _of_wire(network: Topology) -> dict[str, str]:
    """What a network defines of host names, latency, efficiency, packets and overhead."""
    from netsim.base.units import format_seconds

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


def _range(values: Floats, said: Callable[[float], str]) -> str:
    """Write the range of the links' values."""
    low, high = said(float(values.min())), said(float(values.max()))
    return low if low == high else f"{low} to {high} per link"


# --- netsim trace --------------------------------------------------------------------------
@click.group()
def trace() -> None:
    """Check and convert traces."""


@trace.command()
@click.argument("file", shell_complete=named("jobs", suffixes=WORKLOAD_FILES))
@FORMAT
@SET
@JSON
@PLUGINS
@click.pass_context
def check(ctx: click.Context, file: str, format: str | None, settings: tuple[str, ...],
          as_json: bool, plugins: bool) -> None:
    """Print a summary of a trace, or its errors by line.

    For a table of flows, the summary says which columns are read, and which ones are not. FILE may
    be the name of a ready-made workload. The exit code is 2 if there are errors.
    """
    from netsim.traces import check_trace

    with with_plugins(plugins, file):
        report = check_trace(file, format, **format_options(settings, format))
    if as_json:
        echo_json(asdict(report) | {"facts": dict(report.facts)})
        ctx.exit(2 if report.problems else 0)
    for line, message in report.problems:
        echo(f"{_place(report.path, line)}: {message}")
    if report.problems:
        ctx.exit(2)
    echo(f"{report.path}: {report.format}, nothing wrong")
    for line, message in report.notices:
        echo(f"{_place(report.path, line)}: notice: {message}")
    echo_pairs({**_columns(report),
                **{label: f"{value:,.15g}" for label, value in report.facts}}, "  ")


def _place(path: str | Path, line: int | None) -> str:
    """Write a place in a file."""
    return f"{path}:{line}" if line else str(path)


def _columns(report: TraceReport) -> dict[str, str]:
    """The lines on the columns of a table of flows."""
    if not report.columns:
        return {}
    read = [name if name == option else f"{name} as {option}"
            for option, name in report.columns.items()]
    lines = {"columns read": ", ".join(read)
             + ("" if "start" in report.columns else "; all flows start at 0")}
    return lines | ({"not used": ", ".join(report.unused)} if report.unused else {})


@trace.command()
@click.argument("source", shell_complete=named("jobs", suffixes=WORKLOAD_FILES))
@click.argument("target", type=click.Path())
@FORMAT
@click.option("--to", metavar="NAME", help="Format to write, if the suffix of TARGET does not "
                                           "show it: json, coflow-benchmark, chakra or "
                                           "module:function.")
@click.option("--network", metavar="NAME",
              shell_complete=named("networks", suffixes=NETWORK_FILES),
              help="Network for jobs without hosts: they are placed on this ready-made network, or "
                   "this file.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of random draws and placements.")
@SET
@PLUGINS
def convert(source: str, target: str, format: str | None, to: str | None, network: str | None,
            seed: int | None, settings: tuple[str, ...], plugins: bool) -> None:
    """Write a workload in another format.

    The ending of TARGET says which: .json, explicit; .txt, the coflow benchmark; .et, Chakra.
    SOURCE may be the name of a ready-made workload. An existing TARGET is replaced, and named.
    """
    from netsim.base.units import format_count
    from netsim.studies.convert import convert as converted
    from netsim.traces.training.chakra_writer import chakra_file

    chakra = (to or target).endswith(("chakra", ".et"))
    tell_replaced(chakra_file(target, 0) if chakra else target, "TARGET")
    with with_plugins(plugins, source, network):
        workload = converted(source, target, format=format, to=to, network=network, seed=seed,
                             **format_options(settings, format))
    echo(f"wrote {target}: {format_count(len(workload), 'job')}")


# --- netsim data ---------------------------------------------------------------------------
@click.group()
def data() -> None:
    """List and fetch public traces and tables. They are not part of netsim."""


@data.command("list")
@JSON
def list_data(as_json: bool) -> None:
    """List the public traces and tables, with source, licence and digest."""
    from netsim.traces.library import PUBLIC_TRACES

    if as_json:
        echo_json({name: asdict(trace) for name, trace in PUBLIC_TRACES.items()})
        return
    width = max(map(len, PUBLIC_TRACES))
    for name, trace in PUBLIC_TRACES.items():
        echo(f"{name:<{width}}  {trace.file}, {trace.summary}")
        for label, value in (("source", trace.url), ("licence", trace.licence),
                             ("sha256", trace.sha256)):
            echo(f"{'':<{width}}  {label:<7}  {value}")


@data.command()
@click.argument("name", shell_complete=named("public traces"))
@click.option("--to", "folder", type=click.Path(), metavar="FOLDER",
              help="Write the files to this folder; by default the user's cache.")
@click.option("--from", "source", metavar="URL",
              help="Mirror: the URL of a folder that has the files under the same names.")
def fetch(name: str, folder: str | None, source: str | None) -> None:
    """Download a public trace or a set of tables, and print its path.

    What is there already is not downloaded again. Files are accepted only with the digest in
    netsim data list. Needs the extra data.
    """
    from netsim.traces.library import fetch as fetched

    echo(fetched(name, folder, source=source))


# --- netsim init, netsim schema, netsim warm-up --------------------------------------------
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


@click.command()
def schema() -> None:
    """Print the JSON schema of experiment files.

    By it, editors complete and check them. It includes names that other packages add; files of
    netsim init refer to one without these, which comes with netsim.
    """
    from netsim.experiment_file.schema import schema_text

    echo(schema_text())


@click.command("warm-up")
@click.argument("allocators", nargs=-1, metavar="[ALLOCATOR]...",
                shell_complete=named("allocators"))
@click.option("-j", "--workers", type=click.IntRange(min=1),
              help="Number of processes; by default as many as there are cores.")
@quiet_option("Print nothing.")
def warm_up_command(allocators: tuple[str, ...], workers: int | None, quiet: bool) -> None:
    """Compile what allocators need, so that runs begin at once.

    Without names, for all allocators. What was compiled is kept for this version of netsim.
    """
    from netsim.studies.warm_up import warm_up

    began = time.monotonic()
    done = warm_up(allocators or None, workers=workers, progress=not quiet)
    if not quiet:
        took = f"in {time.monotonic() - began:.0f} s; kept in {cache_folder()}"
        echo(f"compiled for {', '.join(done)}, {took}" if done else
             f"everything was compiled already; kept in {cache_folder()}")
