"""Write workloads to files that the readers read back, and convert files between formats.

Workloads that a format cannot express are errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.files import write_text
from netsim.base.plugins import Registry
from netsim.base.reading import POSITIVE, NumberRange
from netsim.base.units import parse_bytes
from netsim.base.values import as_whole, known_names, plain
from netsim.errors import InputError
from netsim.traces.coflow_benchmark import scaled
from netsim.traces.formats import SUFFIXES, read_workload
from netsim.workload import Flows, JobSpec, Stage, Workload
from netsim.workload.job import is_ranked


@known_names
def write_instance(
    workload: Workload, path: str | Path, *, network: Mapping[str, Any] | None = None
) -> None:
    """Write an explicit instance that `read_instances` reads back. The file is written atomically.

    The form ``jobs`` is chosen if the ids of the jobs are 0, 1, ... and no stage has a weight, a
    release time or a coflow id. In it, a chain without deadlines, overheads and steps, whose stages
    are named ``"c0"``, ``"c1"``, ..., is written as ``coflows``, and any other graph as ``stages``.
    Otherwise the form is ``coflows``, which needs an id for each coflow and cannot express
    iterations, computation, stages without flows, steps of collectives, or names, weights and
    groups of jobs; weights are refused.

    Flows are written between hosts, and a job's ``compute_s`` is added to its first stages.
    Everything else reads back unchanged, except for the rounding of release times, which are
    written as instants. Files of more hosts than `netsim.base.limits.LIMITS` has for ``"ports"``
    are read with the option `limits`.

    Parameters
    ----------
    workload : Workload
        Jobs with explicit stages and hosts; `netsim.studies.convert` converts other jobs to such.
    path : path-like
        The file.
    network : mapping, optional
        Keys of a network to write to the same file, which `netsim.read_network` reads:
        ``hosts``, ``port_capacity_bytes_per_s``, ``loopback_uses_ports``, ...

    Raises
    ------
    InputError
        If neither form can express the workload.
    OutputError
        If the file cannot be written.
    """
    known = plain(dict(network or {}))
    hosts = None if known.get("hosts") is None else as_whole(known["hosts"], "hosts", 1)
    for job in workload:
        _check(job, hosts)
    try:
        key, entries = "jobs", _jobs_form(workload)
    except InputError as why_not:
        try:
            key = "coflows"
            entries = [entry for job in workload for entry in _coflow_entries(job)]
        except InputError as nor:
            raise InputError("no explicit instance can express this workload; in the form 'jobs': "
                             f"{why_not}; in the form 'coflows': {nor}") from None
    head = json.dumps({"name": workload.name, **known}, ensure_ascii=False)
    rows = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    write_text(f'{head[:-1]}, "{key}": [\n{rows}\n]}}\n', path)


def _refuse_if(job: JobSpec, reasons: Mapping[str, bool]) -> None:
    """Raise an error with the first reason that applies to a job."""
    for reason, applies in reasons.items():
        if applies:
            raise InputError(f"job {job.id} {reason}")


def _check(job: JobSpec, hosts: int | None) -> None:
    """Raise an error if no format can express the job, or its reader would reject it.

    There is no limit on hosts, unlike for readers: whoever has the jobs has the memory for them.
    """
    sizes = [stage.flows.nbytes.max(initial=0) for stage in job.stages if stage.flows is not None]
    times = [time for stage in job.stages
             for time in (stage.release_s, stage.compute_s, stage.overhead_s or 0.0)]
    _refuse_if(job, {
        "names a pattern; draw its stages first": job.pattern is not None,
        "has a model; draw its stages first": job.model is not None,
        "has operations of ranks; netsim.traces.training.write_chakra writes those":
            job.operations is not None,
        "does not say the hosts of its ranks, and there is no network to place them on":
            job.hosts is None,
        f"has a host that is not from 0 to {(hosts or 0) - 1}": hosts is not None and max(
            [host for host in job.hosts or () if not isinstance(host, str)], default=0) >= hosts,
        "has an arrival, a release, a computation or an overhead beyond 1e15 s": max(
            job.arrival_s, job.compute_s, *times) > 1e15,
        "has a flow beyond 1e18 bytes": max(sizes, default=0) > 1e18,
        f"has a weight that is not {POSITIVE}": POSITIVE.number(job.weight) is None,
        f"has a stage with a weight that is not {POSITIVE}": any(
            POSITIVE.number(float(stage.weight)) is None for stage in job.stages),
        f"has a stage with a deadline that is not {POSITIVE}": any(
            stage.deadline_s is not None and POSITIVE.number(stage.deadline_s) is None
            for stage in job.stages),
    })


def _on_hosts(job: JobSpec, flows: Flows) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the source host and the destination host of each flow."""
    hosts = np.array(job.hosts, dtype=object if job.by_name else np.int64)
    return hosts[flows.src], hosts[flows.dst]


def _entries(job: JobSpec, flows: Flows) -> list[dict[str, Any]]:
    src, dst = _on_hosts(job, flows)
    return [{"src": a, "dst": b, "bytes": nbytes} for a, b, nbytes in
            zip(src.tolist(), dst.tolist(), flows.nbytes.tolist(), strict=True)]


def _stages(job: JobSpec) -> list[Stage]:
    """List the stages, with the job's own computation time added to those without parents."""
    return [stage if stage.after else replace(stage, compute_s=stage.compute_s + job.compute_s)
            for stage in job.stages]


def _jobs_form(workload: Workload) -> list[dict[str, Any]]:
    jobs = sorted(workload, key=lambda job: job.id)
    for place, job in enumerate(jobs):
        if job.id != place:
            raise InputError(f"job {job.id} is number {place} in order of ids, and the id must be "
                             "this number")
    return [_job_entry(job) for job in jobs]


def _job_entry(job: JobSpec) -> dict[str, Any]:
    _refuse_if(job, {
        "has a stage with a weight": any(stage.weight != 1 for stage in job.stages),
        "has a stage with a release time": any(stage.release_s for stage in job.stages),
        "has a coflow with an id": any(stage.coflow_id is not None for stage in job.stages),
        "has ranks that compute, and several of them on a host":
            is_ranked(job.stages) and len({*(job.hosts or ())}) < job.ranks,
    })
    entry: dict[str, Any] = {"arrival_s": float(job.arrival_s)} | _unusual(
        ("name", job.name, ""), ("weight", job.weight, 1), ("group", job.group, None),
        ("iterations", int(job.iterations), 1))
    stages = _stages(job)
    if not _is_chain(stages):
        return entry | {"stages": [_stage_entry(job, stage) for stage in stages]}
    seconds = [float(stage.compute_s) for stage in stages]
    if any(seconds):
        entry["compute_s"] = seconds
    return entry | {"coflows": [_entries(job, stage.flows) for stage in stages
                                if stage.flows is not None]}


def _is_chain(stages: Iterable[Stage]) -> bool:
    return all(stage.flows is not None and stage.name == f"c{k}" and not stage.finishes_before
               and stage.deadline_s is None and stage.overhead_s is None and not stage.steps
               and not stage.ranks and not stage.after_previous and stage.stream == "compute"
               and stage.after == ((f"c{k - 1}",) if k else ())
               for k, stage in enumerate(stages))


def _stage_entry(job: JobSpec, stage: Stage) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": stage.name}
    if stage.flows is not None:
        entry["flows"] = _entries(job, stage.flows)
    optional = {"after": list(stage.after), "compute_s": float(stage.compute_s),
                "finishes_before": list(stage.finishes_before), "deadline_s": stage.deadline_s,
                "steps": [{"flows": flows.tolist(), "times": int(times)}
                          for flows, times in stage.steps],
                "computes_on": [(job.hosts or ())[rank] for rank in stage.ranks],
                "after_previous": list(stage.after_previous)}
    entry |= {key: value for key, value in optional.items() if value}
    return entry | _unusual(("stream", stage.stream, "compute"),
                            ("continues", stage.continues, False),
                            ("overhead_s", stage.overhead_s, None))


def _unusual(*given: tuple[str, Any, Any]) -> dict[str, Any]:
    """Keep keys whose values are not the usual ones, which follow them."""
    return {key: value for key, value, usual in given if value != usual}


def _coflow_entries(job: JobSpec) -> list[dict[str, Any]]:
    ids = [stage.coflow_id for stage in job.stages if stage.coflow_id is not None]
    _refuse_if(job, {
        "has more than one iteration": job.iterations != 1,
        "has a weight": job.weight != 1,
        "has ranks that compute, or iterations that overlap": is_ranked(job.stages),
        "computes": bool(job.compute_s) or any(stage.compute_s for stage in job.stages),
        "has a stage without flows": any(stage.flows is None for stage in job.stages),
        "has a coflow that stands for the steps of a collective": any(
            stage.steps for stage in job.stages),
        "has a coflow without an id": len(ids) != len(job.stages),
        "has no coflow that is released with it": all(stage.release_s for stage in job.stages),
    })
    id_of = {stage.name: int(number) for stage, number in zip(job.stages, ids, strict=True)}
    entries = []
    for stage in job.stages:
        entry = {"id": id_of[stage.name], "job": int(job.id),
                 "arrival_s": _instant(job.arrival_s, stage.release_s)} | _unusual(
            ("weight", float(stage.weight), 1), ("deadline_s", stage.deadline_s, None),
            ("overhead_s", stage.overhead_s, None), ("continues", stage.continues, False),
            ("starts_after", [id_of[name] for name in stage.after], []),
            ("finishes_before", [id_of[name] for name in stage.finishes_before], []))
        entries.append(entry | {"flows": _entries(job, stage.flows or Flows.of(()))})
    return entries


def _instant(arrival_s: float, release_s: float) -> float:
    """Add a release to an arrival, rounded so that subtracting the arrival gives the release.

    If no neighbouring float does so, the sum is rounded as usual.
    """
    instant = float(arrival_s + release_s)
    candidates = (instant, np.nextafter(instant, 0.0), np.nextafter(instant, np.inf))
    return float(next((each for each in candidates if each - arrival_s == release_s), instant))


@known_names
def write_coflow_benchmark(
    workload: Workload,
    path: str | Path,
    *,
    megabyte: str | float = "1MB",
    first_port: int = 0,
    network: Mapping[str, Any] | None = None,
) -> None:
    """Write a trace that `read_coflow_benchmark` reads back. The file is written atomically.

    The format can express jobs of one coflow, without computation, weight, deadline, overhead or
    iterations, in which each reducer receives equal parts from all mappers. The flows must be
    ordered by reducer, then by mapper, as the reader makes them, because policies may depend on
    their order. The format has no names of jobs. Arrivals and sizes need not be whole numbers; they
    read back unchanged.

    Parameters
    ----------
    workload : Workload
        The workload to write.
    path : path-like
        The file.
    megabyte, first_port
        As for `read_coflow_benchmark`.
    network : mapping, optional
        Its ``hosts`` is the number of ports; by default, the most hosts that a job needs.

    Raises
    ------
    InputError
        If the format cannot express the workload.
    OutputError
        If the file cannot be written.
    """
    unit = Decimal(parse_bytes(megabyte, "megabyte", strict=True))
    first_port = as_whole(first_port, "first_port")
    for job in workload:
        _refuse_if(job, {"gives hosts by name, and this format has numbers of ports; give the "
                         "network": job.by_name})
    largest = max(max([1, len(job.hosts or ()), *(int(host) + 1 for host in job.hosts or ())])
                  for job in workload)
    ports = as_whole((network or {}).get("hosts", largest), "hosts", 1)
    for job in workload:
        _check(job, ports)
    rows = [_row(job, unit, first_port) for job in workload]
    write_text("\n".join([f"{ports} {len(rows)}", *rows, ""]), path)


def _row(job: JobSpec, unit: Decimal, first_port: int) -> str:
    stage = job.stages[0]
    flows = stage.flows
    _refuse_if(job, {
        f"has {len(job.stages)} stages, and this format has one coflow per job":
            len(job.stages) > 1,
        "has more than one iteration": job.iterations != 1,
        "has a weight": job.weight != 1,
        "computes": bool(job.compute_s or stage.compute_s),
        "has a coflow with a weight": stage.weight != 1,
        "has a coflow with a deadline": stage.deadline_s is not None,
        "has a coflow with an overhead": stage.overhead_s is not None,
        "has a coflow that stands for the steps of a collective": bool(stage.steps),
        "has a coflow that is not released with it": stage.release_s != 0,
        "has a coflow with another id": stage.coflow_id not in (None, job.id),
    })
    if flows is None or not len(flows):
        raise InputError(f"job {job.id} has no flows")
    src, dst = _on_hosts(job, flows)
    m = _count_mappers(src, dst, flows.nbytes)
    if not m:
        raise InputError(f"job {job.id} is not a coflow in which every mapper sends an equal part "
                         "to each reducer in turn")
    mappers, reducers = (src[:m] + first_port).tolist(), (dst[::m] + first_port).tolist()
    sizes = [_shortest_decimal(nbytes, unit, m) for nbytes in flows.nbytes[::m].tolist()]
    for k, size in enumerate(sizes, 1):
        if NumberRange().number(float(size)) is None:
            raise InputError(f"job {job.id}: MB_{k} must be {NumberRange()}, not {size}")
    received = [f"{port}:{size}" for port, size in zip(reducers, sizes, strict=True)]
    arrival_ms = _shortest_decimal(float(job.arrival_s), Decimal(1), 1000)
    return " ".join(map(str, [job.id, arrival_ms, m, *mappers, len(received), *received]))


def _count_mappers(src: Ints, dst: Ints, nbytes: Floats) -> int:
    """Count the mappers if flows are listed reducer by reducer in equal parts; otherwise 0.

    Of several possible numbers, it is the largest.
    """
    changes = np.flatnonzero(dst != dst[0])
    first = int(changes[0]) if len(changes) else len(dst)
    for m in range(first, 0, -1):
        if len(dst) % m == 0:
            table = [column.reshape(-1, m) for column in (src, dst, nbytes)]
            if (table[0] == table[0][0]).all() and all((column == column[:, :1]).all()
                                                      for column in table[1:]):
                return m
    return 0


def _shortest_decimal(value: float, factor: Decimal, divisor: int) -> str:
    """Find the shortest of three decimals for which `scaled` gives `value`."""
    for digits, exact in ((15, Decimal(repr(value))), (16, Decimal(repr(value))),
                          (17, Decimal(value))):
        context = Context(prec=40)
        number = context.divide(context.multiply(exact, divisor), factor)
        number = Context(prec=digits).normalize(number)
        if scaled(number, factor, divisor) == value:
            break
    return f"{number:f}"


# --- conversion ----------------------------------------------------------------------------

#: Writers of the formats that can be written, by the name of the format: functions
#: ``write(workload, path, *, network)``; see `FORMATS`.
WRITERS = Registry("format to write", {
    "json": "netsim.traces.writers:write_instance",
    "coflow-benchmark": "netsim.traces.writers:write_coflow_benchmark",
    "chakra": "netsim.traces.training.chakra_writer:write_chakra",
})


def convert(
    source: str | Path,
    target: str | Path,
    *,
    format: str | None = None,
    to: str | None = None,
    seed: int | None = None,
    prepare: Callable[[Workload], Workload] | None = None,
    network: Mapping[str, Any] | None = None,
    **options: Any,
) -> Workload:
    """Read a workload, and write it in another format, replacing `target` if it exists.

    `source`, `format`, `seed` and `options` are as for `read_workload`. `to` is a name of `WRITERS`
    or ``"module:function"``; by default it is inferred from the suffix, as for reading. `prepare`
    turns the workload into one that the format can express, such as one without patterns; see
    `netsim.studies.convert`. `network` is as for `write_instance`.

    Return the workload that was written. If the format cannot express it, no file is written.
    """
    write = _writer(target, to)
    workload = read_workload(source, format=format, seed=seed, **options)
    if prepare is not None:
        workload = prepare(workload)
    write(workload, target, network=network)
    return workload


def _writer(target: str | Path, to: str | None) -> Callable[..., None]:
    suffix = Path(target).suffix.lower()
    name = SUFFIXES.get(suffix) if to is None else to
    if name is None:
        raise InputError(f"{target}: no format has the suffix {suffix!r}; give one of: "
                         f"{', '.join(WRITERS)}")
    write: Callable[..., None] = WRITERS.resolve(name)
    return write
