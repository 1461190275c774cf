"""Jobs of an edge-cloud with the arrivals and sizes of a trace of a GPU cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.plugins import parse_policy
from netsim.base.streams import stream
from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import about, as_number, as_path, as_whole, known_names, optional
from netsim.edge.drawn import JobRanges, as_counts
from netsim.edge.edge_cloud import EdgeJob, EdgeWorkload, Kind
from netsim.errors import InputError, TraceError
from netsim.traces.cluster.jobs import ClusterJobs
from netsim.traces.cluster.readers import CLUSTER_TRACES


@known_names
def trace_edge_jobs(file: str | os.PathLike[str],
                    trace: str | Mapping[str, Any] = "tiresias-cluster", *,
                    limit: int | None = None, sample: int | None = None,
                    max_gpus: int | None = None, arrival_scale: float = 1.0,
                    span: Quantity | None = None, duration_scale: float = 1.0,
                    chunks_per_gpu: int = 1, chunks: Sequence[int] | None = None,
                    minibatches: int = 58, epochs: Sequence[int] = (20, 60), servers: int = 100,
                    types: int | Sequence[Kind] = 10,
                    compute: Sequence[Quantity] = ("0.001h", "0.05h"),
                    update: Sequence[Quantity] = ("10ms", "100ms"),
                    gradients: Sequence[Quantity] = ("30MB", "575MB"),
                    bandwidth: Sequence[Quantity] = ("100Mbps", "5120Mbps"), exchange: str = "ps",
                    upload: Sequence[Quantity] = ("1h", "4h"),
                    cloud_upload: Sequence[Quantity] = ("10h", "15h"), slot: Quantity = "1h",
                    chunk: Quantity = "1GB", name: str = "edge-jobs", seed: int = 0
                    ) -> EdgeWorkload:
    """Make jobs from a trace of a GPU cluster, and draw what the trace does not contain.

    A job that ran on g GPUs for d seconds arrives when it was submitted, and takes g workers
    (`gang`). Its data has D = c g chunks, with c = `chunks_per_gpu`, and each chunk trains for p1 =
    d / c seconds. On g workers that have the data, and without exchanges, the job thus takes d
    seconds. The trace does not contain mini-batches. So the times m and G of a mini-batch (see
    `EdgeJob`) are drawn, and a chunk gets as many mini-batches as come nearest to d / c seconds, at
    least one. Then m and G are scaled so that the chunk takes exactly d / c seconds. All else is
    drawn as by `draw_edge_jobs`: with the same seed and ranges, job k has the same worker type,
    gradients, bandwidth and upload delays.

    With `chunks`, only arrivals and numbers of GPUs are those of the trace, as in the evaluation of
    A_online. Chunks, mini-batches, epochs and times are drawn as by `draw_edge_jobs`.

    Parameters
    ----------
    file : path-like
        The file of the trace.
    trace : str or mapping
        Format of the trace: a name of `netsim.traces.cluster.readers.CLUSTER_TRACES`, such as
        ``"philly"``, ``"pai"`` or ``"tiresias-cluster"``, with options as in
        ``"philly:failed=true"``; or ``"module:function"``. Jobs that the reader drops, such as
        those without GPUs, are not jobs of the workload.
    limit : int, optional
        Number of jobs to keep, the first ones of the trace.
    sample : int, optional
        Number of jobs to keep, drawn uniformly from all of the trace; all if it has fewer. For
        `limit` or `sample`, only jobs that `max_gpus` leaves count.
    max_gpus : int, optional
        Drop jobs that ran on more GPUs than this.
    arrival_scale, duration_scale : float
        Factors by which arrival times and durations are multiplied. `duration_scale` is above 0.
    span : quantity, optional
        Time at which the last job arrives: arrivals are scaled to it, not by `arrival_scale`.
    chunks_per_gpu : int
        c, the number of chunks per GPU.
    chunks : sequence of int, optional
        Values from which D is drawn, so that `duration_scale` and `chunks_per_gpu` have no use.
    minibatches, epochs
        B, and the range of E, as for `netsim.edge.drawn.draw_edge_jobs`; used only with `chunks`.
    servers, types, compute, update, gradients, bandwidth, exchange, upload, cloud_upload, chunk
        As for `netsim.edge.drawn.draw_edge_jobs`.
    slot : quantity
        Unit of time: upload delays are multiples of it; arrivals are not.
    name : str
        The workload's name.
    seed : int
        Seed of the draws.

    Raises
    ------
    TraceError
        If the file cannot be read, or its contents are invalid.
    InputError
        If a value is not allowed, or no job is left.
    """
    chunks_per_gpu = as_whole(chunks_per_gpu, "chunks_per_gpu", 1)
    duration_scale = as_number(duration_scale, "duration_scale", least=1e-15, most=1e15)
    listed = () if chunks is None else as_counts(chunks, "chunks")
    if listed and (chunks_per_gpu != 1 or duration_scale != 1):
        raise InputError("chunks: with these, chunks_per_gpu and duration_scale have no use, as "
                         "numbers of chunks and times are drawn",
                         "chunks_per_gpu" if chunks_per_gpu != 1 else "duration_scale")
    ranges = JobRanges(servers=servers, types=types, epochs=epochs if listed else (1, 1),
                       compute=compute, update=update, gradients=gradients, bandwidth=bandwidth,
                       upload=upload, cloud_upload=cloud_upload, slot=slot, chunk=chunk, seed=seed)
    read = _read(file, trace)
    kept = _kept(read, limit, sample, max_gpus, ranges.seed)
    arrival = _arrivals(read.submit_s[kept], arrival_scale, span)
    trained = read.duration_s[kept] * (duration_scale / chunks_per_gpu)
    jobs = []
    for k, (arrival_s, gpus, trained_s) in enumerate(zip(
            *(column.tolist() for column in (arrival, read.gpus[kept], trained)), strict=True)):
        size, fields = ranges.draw(k)
        own = ({"chunks": listed[int(size * len(listed))], "minibatches": minibatches} if listed
               else {"chunks": gpus * chunks_per_gpu, **_mini_batches(trained_s, **fields)})
        jobs.append(EdgeJob(id=k, arrival_s=arrival_s, gang=gpus, exchange=exchange,
                            **fields | own))
    return EdgeWorkload(jobs, name, seed=ranges.seed)


def _read(file: str | os.PathLike[str], trace: str | Mapping[str, Any]) -> ClusterJobs:
    path = os.fspath(as_path(file, "file"))
    try:
        with about("trace"):
            reader, options = parse_policy(trace, "trace")
            if "path" in options:
                raise InputError(f"trace: the path is that of file, not an option of {reader!r}")
            read: ClusterJobs = CLUSTER_TRACES.make(reader, options | {"path": path})
            return read
    except TraceError as error:
        error.key = "file"
        raise


def _kept(read: ClusterJobs, limit: int | None, sample: int | None, max_gpus: int | None,
          seed: int) -> Ints:
    """Find the positions of the jobs to keep, in order of arrival."""
    as_count = optional(partial(as_whole, least=1))
    limit, sample = as_count(limit, "limit"), as_count(sample, "sample")
    max_gpus = as_count(max_gpus, "max_gpus")
    if limit is not None and sample is not None:
        raise InputError("give either limit, for the first jobs of the trace, or sample, for some "
                         "of all, not both", "sample")
    kept = np.flatnonzero(read.gpus <= (np.inf if max_gpus is None else max_gpus))[:limit]
    if not len(kept):
        raise InputError(f"max_gpus = {max_gpus} leaves none of {len(read):,} jobs: all have more "
                         f"GPUs, at least {read.gpus.min()}", "max_gpus")
    if sample is None:
        return kept
    return kept[np.sort(stream(seed, "jobs of a trace").permutation(len(kept))[:sample])]


def _arrivals(submit_s: Floats, scale: float, span: Quantity | None) -> Floats:
    """Scale submission times to arrival times, both in seconds."""
    scale = as_number(scale, "arrival_scale", least=0, most=1e15)
    if span is None:
        return submit_s * scale
    if scale != 1:
        raise InputError("give either arrival_scale or span, not both", "span")
    span_s = parse_seconds(span, "span")
    last = float(submit_s.max())
    return submit_s * (span_s / last if last > 0 else 1.0)


def _mini_batches(trained_s: float, compute_s: float, update_s: float, **others: Any
                  ) -> dict[str, Any]:
    """Choose the number of mini-batches of a chunk, and scale their times to its training time."""
    drawn_s = compute_s + update_s
    if not drawn_s > 0:
        raise InputError("compute and update: a mini-batch must take some time, and one was drawn "
                         "that takes none", "compute")
    count = max(round(trained_s / drawn_s), 1)
    scale = trained_s / count / drawn_s
    return {"minibatches": count, "compute_s": compute_s * scale, "update_s": update_s * scale}
