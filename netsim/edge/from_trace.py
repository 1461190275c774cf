"""Jobs of an edge-cloud with the arrivals and sizes of a trace of a GPU cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netsim.checks import check_path, check_whole, is_number
from netsim.edge.drawn import JobRanges
from netsim.edge.jobs import EdgeJob, EdgeWorkload
from netsim.edge.system import Kind
from netsim.errors import InputError
from netsim.plain import plain_numbers
from netsim.plugins import parse_policy
from netsim.traces.cluster.readers import CLUSTER_TRACES
from netsim.units import Quantity

__all__ = ["trace_edge_jobs"]


@plain_numbers
def trace_edge_jobs(file: str | os.PathLike[str],
                    trace: str | Mapping[str, Any] = "tiresias-cluster", *,
                    limit: int | None = None, max_gpus: int | None = None,
                    arrival_scale: float = 1.0, duration_scale: float = 1.0,
                    chunks_per_gpu: int = 1, servers: int = 100, types: int | Sequence[Kind] = 10,
                    compute: Sequence[Quantity] = ("0.001h", "0.05h"),
                    update: Sequence[Quantity] = ("10ms", "100ms"),
                    gradients: Sequence[Quantity] = ("30MB", "575MB"),
                    bandwidth: Sequence[Quantity] = ("100Mbps", "5120Mbps"),
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
    max_gpus : int, optional
        Drop jobs that ran on more GPUs than this.
    arrival_scale, duration_scale : float
        Factors by which arrival times and durations are multiplied. `duration_scale` is above 0.
    chunks_per_gpu : int
        c, the number of chunks per GPU.
    servers, types, compute, update, gradients, bandwidth, upload, cloud_upload, chunk
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
    check_path(file, "file")
    for what, count in (("limit", limit), ("max_gpus", max_gpus)):
        if count is not None:
            check_whole(count, what, 1)
    check_whole(chunks_per_gpu, "chunks_per_gpu", 1)
    for what, factor, least in (("arrival_scale", arrival_scale, 0.0),
                                ("duration_scale", duration_scale, 1e-15)):
        if not (is_number(factor) and least <= factor <= 1e15):
            raise InputError(f"{what} must be a number from {least:g} to 1e15, not {factor!r}")
    ranges = JobRanges(servers=servers, types=types, epochs=(1, 1), compute=compute, update=update,
                       gradients=gradients, bandwidth=bandwidth, upload=upload,
                       cloud_upload=cloud_upload, slot=slot, chunk=chunk, seed=seed)
    reader, options = parse_policy(trace, "trace")
    if "path" in options:
        raise InputError(f"trace: the path is that of file, not an option of {reader!r}")
    read = CLUSTER_TRACES.make(reader, options | {"path": os.fspath(file)})
    kept = np.flatnonzero(read.gpus <= (np.inf if max_gpus is None else max_gpus))[:limit]
    if not len(kept):
        raise InputError(f"max_gpus = {max_gpus} leaves none of {len(read):,} jobs: all have more "
                         f"GPUs, at least {read.gpus.min()}")
    columns = (read.submit_s[kept] * arrival_scale, read.gpus[kept],
               read.duration_s[kept] * (duration_scale / chunks_per_gpu))
    jobs = []
    for k, (arrival_s, gpus, trained_s) in enumerate(zip(
            *(column.tolist() for column in columns), strict=True)):
        fields = ranges.draw(k)[1]
        jobs.append(EdgeJob(id=k, arrival_s=arrival_s, chunks=gpus * chunks_per_gpu, gang=gpus,
                            **fields | _mini_batches(trained_s, **fields)))
    return EdgeWorkload(jobs, name, seed=seed)


def _mini_batches(trained_s: float, compute_s: float, update_s: float, **others: Any
                  ) -> dict[str, Any]:
    """Return the number of mini-batches of a chunk, and their times scaled to its training time."""
    drawn_s = compute_s + update_s
    if not drawn_s > 0:
        raise InputError("compute and update: a mini-batch must take some time, and one was drawn "
                         "that takes none")
    count = max(round(trained_s / drawn_s), 1)
    scale = trained_s / count / drawn_s
    return {"minibatches": count, "compute_s": compute_s * scale, "update_s": update_s * scale}
