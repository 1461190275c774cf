"""``netsim map``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from netsim.cli.completion import named
from netsim.cli.echo import JSON, echo, echo_json
from netsim.cli.options import check_picture_file, find_own_modules

if TYPE_CHECKING:
    from netsim.models import ParallelModel
    from netsim.models.iteration_time import IterationParts
    from netsim.models.mapping import Mapped
    from netsim.models.servers import ServerKind


@click.command("map")
@click.argument("model", shell_complete=named("models"))
@click.option("--counts", required=True, metavar="N,N,...",
              help="Number of GPUs that the job gets on each server, such as 4,4,2.")
@click.option("--gpus", type=click.IntRange(min=1), default=8, show_default=True,
              help="GPUs of a server; they share its NIC equally.")
@click.option("--nic", default="10Gbps", show_default=True, help="Bandwidth of a server's NIC.")
@click.option("--intra", default="300GB/s", show_default=True,
              help="Bandwidth between two GPUs of a server.")
@click.option("--gpu", default="a100", show_default=True, shell_complete=named("gpus"),
              help="Kind of GPU; see netsim list gpus.")
@click.option("--mapping", default="heavy-edge", show_default=True,
              shell_complete=named("mappings"),
              help="heavy-edge, optimal, random, round-robin, or module:function.")
@click.option("--stages", type=int, help="Number of stages of the pipeline; by default the least "
                                         "that memory allows.")
@click.option("--micro-batches", type=int, default=0,
              help="Number of micro-batches of a synchronous pipeline. By default, the pipeline "
                   "is asynchronous.")
@click.option("--allreduce", default="ring", show_default=True, help="ring or tree.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of a random mapping.")
@click.option("--time-limit", default="60s", show_default=True, help="Time limit of the search "
                                                                     "for the best mapping.")
@click.option("--plot", type=click.Path(), metavar="FILE",
              help="Draw the mapping as a .png, .pdf or .svg.")
@JSON
def map_command(model: str, counts: str, gpus: int, nic: str, intra: str, gpu: str, mapping: str,
                stages: int | None, micro_batches: int, allreduce: str, seed: int | None,
                time_limit: str, plot: str | None, as_json: bool) -> None:
    """Map a job's replicas to servers.

    Their iteration times are compared with each other and with bounds.

    MODEL is a neural network of the catalogue, see netsim list models.
    """
    from netsim.models.catalogue import make_model
    from netsim.models.mapping import MAPPINGS
    from netsim.models.servers import ServerKind
    from netsim.units import parse_rate, question_units

    find_own_modules()
    mapped_by = MAPPINGS.resolve(mapping)
    if plot is not None:
        check_picture_file(plot, "--plot")
    with question_units():
        kind = ServerKind(gpus, parse_rate(nic, "--nic"), parse_rate(intra, "--intra"))
    given = _counts(counts)
    job = make_model(model, sum(given), stages=stages, gpu=gpu, allreduce=allreduce,
                     micro_batches=micro_batches)
    found: dict[str, Mapped] = {}
    if mapping != "optimal":
        found[mapping] = mapped_by(job, given, kind, seed)
    best = _optimum(job, given, kind, time_limit, needed=mapping == "optimal")
    found |= {} if best is None else {"optimal": best}
    if as_json:
        echo_json(_facts(job, kind, found))
    else:
        _print_job(job, kind)
        _print_alphas(job, kind, found)
        for name, mapped in found.items():
            _print_mapping(name, job, kind, mapped)
    if plot is not None:
        _draw(job, kind, found, plot)
        if not as_json:
            echo(f"picture: {plot}")


def _counts(text: str) -> list[int]:
    from netsim.errors import InputError
    from netsim.units import is_digits

    parts = [part.strip() for part in text.split(",")]
    if not all(is_digits(part) and int(part) for part in parts):
        raise InputError(f"--counts must be a list of GPUs by server, such as 4,4,2, not {text!r}")
    return [int(part) for part in parts]


def _optimum(model: ParallelModel, counts: list[int], kind: ServerKind, time_limit: str,
             *, needed: bool) -> Mapped | None:
    """Find the best mapping; None with a note if its solver is missing and was not asked for."""
    from netsim.errors import MissingExtraError
    from netsim.models.mapping import optimal_mapping

    try:
        return optimal_mapping(model, counts, kind, time_limit=time_limit)
    except MissingExtraError as error:
        if needed:
            raise
        echo(f"without the optimum: {error}", err=True)
        return None


def _facts(model: ParallelModel, kind: ServerKind, found: dict[str, Mapped]) -> dict[str, Any]:
    """List iteration times in seconds, their bounds, and the replicas on each server."""
    from netsim.models.iteration_time import alpha_min_bound
    from netsim.models.mapping import Mapper

    most, least = Mapper(kind).extremes(model)
    return {"model": model.name, "each_alone_s": most, "consolidated_s": least,
            "lower_bound_s": alpha_min_bound(model, kind),
            "mappings": [{"mapping": name, "status": mapped.status, "iteration_s": mapped.alpha_s,
                          "gap": mapped.gap, "placement": mapped.placement.tolist()}
                         for name, mapped in found.items()]}


def _print_job(model: ParallelModel, kind: ServerKind) -> None:
    from netsim.units import format_bytes, format_count, format_rate

    stages = model.stages
    replicas = ", ".join(str(stage.replicas) for stage in stages)
    parameters = format_bytes(sum(stage.param_bytes for stage in stages))
    one = format_count(len(stages), "stage")
    echo(f"{model.name}: {parameters} of parameters; {one} of {replicas} replicas; "
               f"{model.allreduce} all-reduce")
    echo(f"servers: {format_count(kind.gpus, 'GPU')}, {format_rate(kind.nic)} to other servers, "
               f"{format_rate(kind.intra)} inside\n")


def _print_alphas(model: ParallelModel, kind: ServerKind, found: dict[str, Mapped]) -> None:
    """Print the iteration time, the optimum, and the extremes over all placements."""
    from netsim.cli.tables import print_table
    from netsim.models.iteration_time import alpha_min_bound
    from netsim.models.mapping import Mapper
    from netsim.units import format_seconds

    most, least = Mapper(kind).extremes(model)
    best = found["optimal"].alpha_s if "optimal" in found else None

    def row(name: str, seconds: float, status: str) -> list[str]:
        over = f"{seconds / best:.3f}" if best else "-"
        return [name, status, format_seconds(seconds), over]

    rows = [row(name, mapped.alpha_s, mapped.status if mapped.status != "time limit" else
                f"time limit, gap {mapped.gap:.1%}") for name, mapped in found.items()]
    rows += [row("each replica alone", most, "alpha_max"),
             row("consolidated", least, "alpha~_min, Heavy-Edge on as few servers as can be"),
             row("lower bound", alpha_min_bound(model, kind), "no placement is faster")]
    columns = zip(*rows, strict=True)
    print_table(dict(zip(("mapping", "", "iteration", "over\noptimum"), columns, strict=True)),
                texts=2)


def _print_mapping(name: str, model: ParallelModel, kind: ServerKind, mapped: Mapped) -> None:
    """Print the replicas on each server, and the parts of the time of its slowest stage."""
    from netsim.cli.tables import print_table
    from netsim.models.iteration_time import iteration_parts
    from netsim.units import format_seconds

    echo(f"\n{name}: GPUs by stage, and times of each server's slowest stage\n")
    times = _slowest(iteration_parts(model, mapped.placement, kind))
    columns: dict[str, list[str]] = {
        "server": [str(server) for server in range(len(mapped.placement))],
        "stages": [_stages(row) for row in mapped.placement.tolist()],
    }
    columns |= {heading: [format_seconds(value) for value in values]
                for heading, values in times.items()}
    print_table(columns, texts=2)


def _stages(row: list[int]) -> str:
    return ", ".join(f"stage {stage} x{count}" for stage, count in enumerate(row) if count)


def _slowest(parts: IterationParts) -> dict[str, Any]:
    """The parts of the time of the slowest stage on each server, in seconds."""
    import numpy as np

    total = parts.compute_s + parts.communication_s + parts.allreduce_s
    at = np.arange(len(total)), total.argmax(axis=1)
    return {"compute": parts.compute_s[at], "communicate": parts.communication_s[at],
            "all-reduce": parts.allreduce_s[at]}


def _draw(model: ParallelModel, kind: ServerKind, found: dict[str, Mapped], path: str) -> None:
    from netsim.models.iteration_time import iteration_parts
    from netsim.plots.bars import save_plot
    from netsim.plots.mapping import mapping_picture
    from netsim.units import format_seconds

    panels = {
        f"{name}: {format_seconds(mapped.alpha_s)} per iteration":
            (mapped.placement, _slowest(iteration_parts(model, mapped.placement, kind)))
        for name, mapped in found.items()}
    save_plot(mapping_picture(panels, kind.gpus), path)
