"""Commands that answer one question: collective, calibrate, map and predict."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from netsim.base.lazy import pd
from netsim.cli.completion import NETWORK_FILES, WORKLOAD_FILES, listed, named
from netsim.cli.options import (
    FORMAT,
    JSON,
    PLUGINS,
    SET,
    echo,
    echo_json,
    find_own_modules,
    format_options,
    plot_option,
    quiet_option,
    split_at_commas,
    tell_replaced,
    with_plugins,
)
from netsim.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from netsim.models import ParallelModel
    from netsim.models.iteration_time import IterationParts
    from netsim.models.mapping import Mapped
    from netsim.models.servers import ServerKind
    from netsim.predictors import Evaluation
    from netsim.studies.calibration import Calibration


# --- netsim collective ---------------------------------------------------------------------
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
@plot_option("time and busbw by size")
def collective(name: str, network: str, ranks: int | None, last: str, first: str, factor: float,
               single: bool, algorithm: str | None, form: str, servers: int | None,
               options: tuple[str, ...], allocator: str, as_csv: bool, as_json: bool,
               plot: str | None) -> None:
    """Measure a collective over a range of sizes, as nccl-tests do.

    Each size is --factor times the one before, from --from to --bytes, which is always included.

    COLLECTIVE is all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, send-recv
    or barrier. Nothing else uses the network. GB/s are 1e9 bytes per second.
    """
    from netsim.base.units import question_units
    from netsim.network import read_network
    from netsim.studies.collective_times import collective_times, sizes_between

    find_own_modules()
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
    from netsim.base.units import parse_value

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
    from netsim.base.units import format_seconds, format_size
    from netsim.cli.printing import print_table

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


# --- netsim calibrate ----------------------------------------------------------------------
@click.command()
@click.argument("measured", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option("--network", required=True, metavar="NETWORK",
              shell_complete=named("networks", suffixes=NETWORK_FILES),
              help="A network of the same shape: a file, or the name of a ready-made one.")
@click.option("--out", type=click.Path(), metavar="FILE",
              help="Where to write the fitted network; by default NETWORK-calibrated.toml in the "
                   "current folder.")
@click.option("--collective", metavar="NAME",
              help="What outputs of nccl-tests are about, if they do not say so.")
@click.option("--ranks", type=click.IntRange(min=2),
              help="Number of ranks, if outputs lack the lines '# Rank'.")
@click.option("--per-server", type=click.IntRange(min=1),
              help="Ranks of each server, with --ranks; by default all of them.")
@click.option("--algorithm", metavar="NAME",
              help="Algorithm of all collectives; by default the first usual one that is fast "
                   "enough.")
@JSON
@plot_option("predicted beside measured times")
def calibrate(measured: tuple[str, ...], network: str, out: str | None, collective: str | None,
              ranks: int | None, per_server: int | None, algorithm: str | None, as_json: bool,
              plot: str | None) -> None:
    """Fit a network to measured times of collectives or flows.

    Every third size is held out: it enters no fit, and shows how well others are predicted.

    FILE is what a program of nccl-tests prints, or a CSV file with the columns collective, ranks,
    bytes and seconds, or, of flows, src, dst, bytes, begin_s and end_s.
    """
    from pathlib import Path

    from netsim.base.units import question_units
    from netsim.studies.calibration import calibrate as fit

    with question_units():
        found = fit(measured, network, collective=collective, ranks=ranks, per_server=per_server,
                    algorithm=algorithm)
    path = out or f"{Path(network).stem}-calibrated.toml"
    tell_replaced(path, "--out")
    found.save(path)
    if as_json:
        tables = {name: table.astype(object).where(table.notna(), None).to_dict("records")
                  for name in ("errors", "parameters", "rows") for table in [getattr(found, name)]}
        echo_json({"held_out_error": found.held_out_error, "network": path,
                   "patterns": found.patterns, **tables})
    else:
        _print_calibration(found)
        echo(f"\nnetwork: {path}")
    if plot is not None:
        from netsim.plots.bars import save_plot
        from netsim.plots.collectives import calibration_curves

        save_plot(calibration_curves(found.rows), plot)
        if not as_json:
            echo(f"picture: {plot}")


#: About how many points are printed.
_MOST_ROWS = 40


def _print_calibration(found: Calibration) -> None:
    from netsim.base.units import format_seconds, format_size
    from netsim.cli.printing import print_table
    from netsim.studies.calibration import inline

    errors, every = found.errors, -(-len(found.rows) // _MOST_ROWS)
    every += every > 1 and every % 3 == 0  # so that held-out points are among them
    out = found.rows[found.rows["held_out"]]
    worst = (out["ratio"] - 1).abs().idxmax() if len(out) else 0
    rows = found.rows[(found.rows.index % every == 0) | (found.rows.index == worst)]
    print_table({"measured": [f"{name} of {ranks}" for name, ranks in
                              zip(rows["collective"], rows["ranks"], strict=True)],
                 "algorithm": list(rows["algorithm"]),
                 "size": [format_size(size) for size in rows["bytes"]],
                 "time": [format_seconds(time) for time in rows["measured_s"]],
                 "predicted": [format_seconds(time) for time in rows["predicted_s"]],
                 "ratio": [f"{ratio:.2f}" for ratio in rows["ratio"]],
                 "": ["held out" if out else "" for out in rows["held_out"]]}, texts=2)
    echo("" if every == 1 else
         f"\n(one in {every} of {len(found.rows):,} points, and the worst of those held out; "
         "--json has all)\n")
    print_table({"sizes": list(errors["sizes"]),
                 "fitted\npoints": [str(count) for count in errors["fitted"]],
                 "held out\npoints": [str(count) for count in errors["held_out"]],
                 "fitted\nerror": _percent(errors["fitted_error"]),
                 "held out\nerror": _percent(errors["held_out_error"]),
                 "held out\nworst": _percent(errors["worst"])})
    known = found.parameters[found.parameters["determined"]]
    echo("")
    print_table({"parameter": [f"{name} of {of}" for name, of in
                               zip(known["parameter"], known["of"], strict=True)],
                 **{title: [f"{value:.4g}" if name == "efficiency" else format_seconds(value)
                            for name, value in zip(known["parameter"], known[column],
                                                   strict=True)]
                    for title, column in (("value", "value"), ("error", "standard_error"))}})
    left = found.parameters[~found.parameters["determined"]]
    if len(left):
        echo("\nnot determined: " + ", ".join(
            f"{name} of {of}" for name, of in zip(left["parameter"], left["of"], strict=True)))
    for name, pattern in found.patterns.items():
        echo(f"\n{name} was fitted as {inline(pattern)}")


def _percent(values: pd.Series) -> list[str]:
    return ["" if value != value else f"{value:.1%}" for value in values]


# --- netsim map ----------------------------------------------------------------------------
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
@plot_option("the mapping")
@JSON
def map_command(model: str, counts: str, gpus: int, nic: str, intra: str, gpu: str, mapping: str,
                stages: int | None, micro_batches: int, allreduce: str, seed: int | None,
                time_limit: str, plot: str | None, as_json: bool) -> None:
    """Map a job's replicas to servers.

    Their iteration times are compared with each other and with bounds.

    MODEL is a neural network of the catalogue, see netsim list models.
    """
    from netsim.base.units import parse_rate, question_units
    from netsim.models.catalogue import make_model
    from netsim.models.mapping import MAPPINGS
    from netsim.models.servers import ServerKind

    find_own_modules()
    mapped_by = MAPPINGS.resolve(mapping)
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
    from netsim.base.units import is_digits

    parts = [part.strip() for part in text.split(",")]
    if not all(is_digits(part) and int(part) for part in parts):
        raise InputError(f"--counts must be a list of GPUs by server, such as 4,4,2, not {text!r}")
    return [int(part) for part in parts]


def _optimum(model: ParallelModel, counts: list[int], kind: ServerKind, time_limit: str,
             *, needed: bool) -> Mapped | None:
    """Find the best mapping; None with a note if its solver is missing and was not asked for."""
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
    from netsim.base.units import format_bytes, format_count, format_rate

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
    from netsim.base.units import format_seconds
    from netsim.cli.printing import print_table
    from netsim.models.iteration_time import alpha_min_bound
    from netsim.models.mapping import Mapper

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
    from netsim.base.units import format_seconds
    from netsim.cli.printing import print_table
    from netsim.models.iteration_time import iteration_parts

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
    from netsim.base.units import format_seconds
    from netsim.models.iteration_time import iteration_parts
    from netsim.plots.bars import save_plot
    from netsim.plots.mapping import mapping_picture

    panels = {
        f"{name}: {format_seconds(mapped.alpha_s)} per iteration":
            (mapped.placement, _slowest(iteration_parts(model, mapped.placement, kind)))
        for name, mapped in found.items()}
    save_plot(mapping_picture(panels, kind.gpus), path)


# --- netsim predict ------------------------------------------------------------------------
@click.command()
@click.argument("workload", shell_complete=named("jobs", suffixes=WORKLOAD_FILES))
@click.option("--predictor", "predictors", multiple=True, metavar="NAME,...",
              shell_complete=listed("predictors"),
              default=("random-forest,mean,median",), show_default=True,
              help="Predictors to compare. Options follow a colon, as in mean:scope=user. A "
                   "predictor may also be module:Class.")
@click.option("--train", type=float, default=0.8, show_default=True, metavar="SHARE",
              help="Train on this fraction of the jobs, in order of arrival.")
@plot_option("the errors")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the random parts of the "
                                                         "workload.")
@quiet_option("Show no progress.")
@FORMAT
@SET
@JSON
@PLUGINS
def predict(workload: str, predictors: tuple[str, ...], train: float, plot: str | None,
            seed: int | None, quiet: bool, format: str | None, settings: tuple[str, ...],
            as_json: bool, plugins: bool) -> None:
    """Compare predictors of the numbers of iterations of jobs.

    They learn from the groups and users of the first jobs of WORKLOAD, and predict the others.
    """
    from netsim.plots.bars import save_plot
    from netsim.predictors import evaluate, make_predictor
    from netsim.simulation.progress import show_progress
    from netsim.traces import format_of, read_workload

    if not 0 < train < 1:
        raise InputError(f"--train must be between 0 and 1, not {train:g}")
    with with_plugins(plugins, workload):
        made = [make_predictor(name) for each in predictors for name in split_at_commas(each)]
        options = format_options(settings, format)
        if format is not None and "train" in format_of(format).options:
            options = {"train": train} | options
        jobs = read_workload(workload, format=format, seed=seed, **options)
    evaluations = []
    for predictor in made:
        with show_progress(not quiet, 1, label=f"fits {predictor.name}") as report:
            evaluations.append(evaluate(predictor, jobs, train, report))
    if as_json:
        echo_json(_table(evaluations))
    else:
        _print_errors(evaluations)
    if plot is not None:
        from netsim.plots.prediction import error_histogram

        save_plot(error_histogram({each.predictor: each.histogram() for each in evaluations}),
                  plot)
        if not as_json:
            echo(f"picture: {plot}")


def _table(evaluations: list[Evaluation]) -> pd.DataFrame:
    """Make a row for each predictor."""
    names = ("predictor", "trained_on", "unseen", "mae", "within_5_percent", "fit_s", "predict_s")
    return pd.DataFrame([{"jobs": len(each.iterations)} | {name: getattr(each, name)
                                                           for name in names}
                         for each in evaluations])


def _print_errors(evaluations: list[Evaluation]) -> None:
    from netsim.base.units import format_seconds
    from netsim.cli.printing import print_table
    from netsim.plots.style import three_figures

    first = evaluations[0]
    echo(f"{len(first.iterations):,} jobs after {first.trained_on:,} to learn from; "
         f"{first.unseen:.1%} of groups never seen\n")
    print_table({
        "predictor": [each.predictor for each in evaluations],
        "MAE\n(iterations)": [three_figures(each.mae) for each in evaluations],
        "within\n5 %": [f"{each.within_5_percent:.1%}" for each in evaluations],
        "fit": [format_seconds(each.fit_s) for each in evaluations],
        "predict": [format_seconds(each.predict_s) for each in evaluations]})
