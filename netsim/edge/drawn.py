"""Random edge-cloud systems and jobs, as in the evaluation of A_online (Section V)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.streams import stream
from netsim.base.units import (
    SMALL_SIZE,
    Quantity,
    is_digits,
    parse_bytes,
    parse_rate,
    parse_seconds,
)
from netsim.base.values import (
    about,
    as_list,
    as_number,
    as_range,
    as_whole,
    is_whole,
    known_names,
    plain,
    refused,
)
from netsim.edge.edge_cloud import MOST, EdgeCloud, EdgeJob, EdgeWorkload, Kind
from netsim.errors import InputError

#: Relative frequencies of servers by their number of workers.
SIZES: Mapping[str, float] = {"2": 321, "8": 231}

#: Numbers of chunks D, which are equally likely.
CHUNKS = (27, 115, 60)

#: Beyond this number of slots, floating-point times would not be exact.
_MOST_SLOTS = 2.0**40


@known_names
def draw_edge_cloud(servers: int = 100, *, sizes: Mapping[str, float] = SIZES, types: int = 10,
                    ps: int | Sequence[int | Sequence[Kind | None]] | Mapping[str, float] = 1,
                    storage: Quantity | Sequence[Quantity] = math.inf, cloud: bool = True,
                    edge_links: Quantity | Sequence[Quantity] = "10Gbps",
                    wan: Quantity = "10Gbps", name: str = "edge-cloud", seed: int = 0
                    ) -> EdgeCloud:
    """Draw a random edge-cloud: servers with workers of several types.

    The defaults are those of the evaluation of A_online: 100 servers with 2 or 8 workers. The paper
    has 8 to 10 types of workers, and does not give the number of PSs.

    Parameters
    ----------
    servers : int
        Number of edge servers. Each is drawn from a random stream of its own, so that adding a
        server does not change the others.
    sizes : mapping of int to float
        Relative probability of each number of workers of a server.
    types : int
        Number of types of workers, numbered from 0; the type of each worker is drawn uniformly.
    ps : int, sequence, or mapping of int to float
        PSs of the servers, as for `EdgeCloud`; or the relative probability of each number of PSs
        of a server. Numbers of PSs and workers are drawn from different random streams.
    storage, cloud, edge_links, wan, name
        As for `EdgeCloud`.
    seed : int
        Seed of the draws.

    Raises
    ------
    InputError
        If a value is not allowed.

    Examples
    --------
    >>> draw_edge_cloud(3, types=2, seed=1)
    <EdgeCloud 'edge-cloud': 3 servers, 12 workers of 2 types, with a cloud>
    """
    servers = as_whole(servers, "servers", 0, 10**6)
    types = as_whole(types, "types", 1, 10**6)
    seed = as_whole(seed, "seed")
    counts, likely = _frequencies(sizes, "sizes", "workers")
    if isinstance(ps, Mapping):
        ps = _draw_ps(*_frequencies(ps, "ps", "PSs"), servers, seed)
    workers: list[list[int]] = []
    total = 0
    for server in range(servers):
        rng = stream(seed, "edge server", server)
        count = counts[int(np.searchsorted(likely, rng.random(), side="right"))]
        total += count
        if total > MOST:
            raise InputError(f"edge-cloud {name!r} has more than {MOST:,} workers", "servers")
        workers.append([int(types * each) for each in rng.random(count)])
    return EdgeCloud(workers, ps=ps, storage=storage, cloud=cloud, edge_links=edge_links, wan=wan,
                     name=name)


def _draw_ps(counts: Sequence[int], likely: Floats, servers: int, seed: int) -> list[int]:
    """Draw the number of PSs of each server."""
    return [counts[int(np.searchsorted(likely, stream(seed, "PSs of an edge server", server
                                                      ).random(), side="right"))]
            for server in range(servers)]


def _frequencies(given: object, what: str, things: str) -> tuple[list[int], Floats]:
    """List the numbers of things of a server, with their cumulative probabilities."""
    if not isinstance(given, Mapping) or not given:
        raise refused(what, f"a table of numbers of {things} to probabilities", given)
    with about(what):
        counts = [as_whole(int(number) if is_digits(str(number)) else number,
                           f"{what}: {things}", 0, 10**6) for number in given]
        weights = [as_number(weight, f"{what}: the probability of {number} {things}",
                             least=0, most=1e15) for number, weight in given.items()]
        if not sum(weights) > 0:
            raise InputError(f"{what}: at least one probability must be greater than 0")
    likely = np.cumsum(weights) / math.fsum(weights)
    likely[-1] = 1.0
    return counts, likely


@known_names
def draw_edge_jobs(jobs: int = 300, *, servers: int = 100, types: int | Sequence[Kind] = 10,
                   span: Quantity = "1800h", peaks: Sequence[float] = (0.25, 0.65),
                   peak_width: float = 0.05, in_peaks: float = 0.6,
                   chunks: Sequence[int] = CHUNKS, minibatches: int = 58,
                   epochs: Sequence[int] = (20, 60),
                   compute: Sequence[Quantity] = ("0.001h", "0.05h"),
                   update: Sequence[Quantity] = ("10ms", "100ms"),
                   gradients: Sequence[Quantity] = ("30MB", "575MB"),
                   bandwidth: Sequence[Quantity] = ("100Mbps", "5120Mbps"), exchange: str = "ps",
                   upload: Sequence[Quantity] = ("1h", "4h"),
                   cloud_upload: Sequence[Quantity] = ("10h", "15h"), slot: Quantity = "1h",
                   chunk: Quantity = "1GB", gang: int | None = None, name: str = "edge-jobs",
                   seed: int = 0) -> EdgeWorkload:
    """Draw random jobs for an edge-cloud.

    The defaults are those of the evaluation of A_online, which has slots of an hour. Values of a
    range, which is given as (least, most), are drawn uniformly.

    Parameters
    ----------
    jobs : int
        Number of jobs. Each draws from random streams of its own, so that adding a job, or
        changing a range, changes nothing else.
    servers : int
        Number of edge servers for which each job has an upload delay.
    types : int or sequence of str or int
        Types of workers from which the type of each job is drawn, or the number of these types,
        which are then 0, 1, ...
    span : quantity
        Jobs arrive between time 0 and this time.
    peaks : sequence of float
        Centres of the peaks of arrivals, as shares of the span. Arrivals are divided equally
        among the peaks, and normally distributed around each.
    peak_width : float
        Standard deviation of arrivals in a peak, as a share of the span.
    in_peaks : float
        Share of the jobs that arrive in peaks; the others arrive uniformly over the span.
    chunks : sequence of int
        Values from which D, the number of chunks, is drawn uniformly; a value that is listed
        twice is twice as likely.
    minibatches : int
        B, the number of mini-batches of each chunk.
    epochs : (int, int)
        Range of E, the number of epochs.
    compute, update : (quantity, quantity)
        Ranges of m, the time to compute a mini-batch, and of G, the time of the PS's update.
    gradients, bandwidth : (quantity, quantity)
        Ranges of q, the size of the gradients, and of b, the bandwidth to the PS, or to the next
        worker in the ring.
    exchange : {"ps", "ring"}
        How the workers of all jobs exchange gradients; see `EdgeJob`.
    upload, cloud_upload : (quantity, quantity)
        Ranges of the upload delays to each edge server and to the cloud; whole slots.
    slot : quantity
        Unit of time: arrivals and upload delays are multiples of it.
    chunk : quantity
        Size of a chunk, for systems with limited storage; the paper gives none.
    gang : int, optional
        k, the number of workers that schedulers of whole jobs give to a job; by default D.
    name : str
        The workload's name.
    seed : int
        Seed of the draws.

    Raises
    ------
    InputError
        If a value is not allowed.

    Examples
    --------
    >>> drawn = draw_edge_jobs(2, servers=1, seed=1)
    >>> [(job.arrival_s / 3600, job.chunks, job.epochs) for job in drawn]
    [(523.0, 27, 30), (1021.0, 115, 53)]
    """
    jobs = as_whole(jobs, "jobs", 1, 10**7)
    listed = as_counts(chunks, "chunks")
    ranges = JobRanges(servers=servers, types=types, epochs=epochs, compute=compute, update=update,
                       gradients=gradients, bandwidth=bandwidth, upload=upload,
                       cloud_upload=cloud_upload, slot=slot, chunk=chunk, seed=seed)
    arrival = _Arrivals(ranges.slots(span, "span"), peaks, peak_width, in_peaks)
    drawn = []
    for k in range(jobs):
        size, fields = ranges.draw(k)
        drawn.append(EdgeJob(id=k, arrival_s=arrival.of(ranges.seed, k) * ranges.slot_s,
                             chunks=listed[int(size * len(listed))], minibatches=minibatches,
                             exchange=exchange, gang=gang, **fields))
    return EdgeWorkload(drawn, name, seed=ranges.seed)


class JobRanges:
    """The ranges of `draw_edge_jobs`, from which fields other than arrivals and sizes are drawn."""

    def __init__(self, *, servers: int, types: int | Sequence[Kind], epochs: Sequence[int],
                 compute: Sequence[Quantity], update: Sequence[Quantity],
                 gradients: Sequence[Quantity], bandwidth: Sequence[Quantity],
                 upload: Sequence[Quantity], cloud_upload: Sequence[Quantity], slot: Quantity,
                 chunk: Quantity, seed: int) -> None:
        self._servers = as_whole(servers, "servers", 0, 10**6)
        self.seed = as_whole(seed, "seed")
        self.slot_s = parse_seconds(slot, "slot", strict=True)
        self._kinds = _kinds(types)
        self._ranges = {
            "epochs": as_range(epochs, "epochs", partial(as_whole, least=1)),
            "compute_s": as_range(compute, "compute", parse_seconds),
            "update_s": as_range(update, "update", parse_seconds),
            "gradient_bytes": as_range(gradients, "gradients", parse_bytes),
            "bandwidth": as_range(bandwidth, "bandwidth", parse_rate)}
        self._near = as_range(upload, "upload", self.slots)
        self._far = as_range(cloud_upload, "cloud_upload", self.slots)
        self._chunk_bytes = parse_bytes(chunk, "chunk", usual=SMALL_SIZE)

    def slots(self, value: Any, what: str) -> int:
        """Parse a duration that must be a whole number of slots."""
        slots = parse_seconds(value, what) / self.slot_s
        if slots > _MOST_SLOTS or abs(slots - round(slots)) > 1e-9 * max(slots, 1.0):
            raise refused(what, f"a multiple of the slot, {self.slot_s:g} s", value)
        return round(slots)

    def draw(self, job: int) -> tuple[float, dict[str, Any]]:
        """Draw a number in [0, 1) that determines a job's size, and fields of its `EdgeJob`."""
        # The uniform numbers do not depend on the ranges to which they are scaled.
        kind, size, *at = stream(self.seed, "edge job", job).random(2 + len(self._ranges)).tolist()
        own = {name: _scaled(u, *self._ranges[name]) for name, u in zip(self._ranges, at,
                                                                        strict=True)}
        rng = stream(self.seed, "uploads of an edge job", job)
        delay = _scaled_whole(float(rng.random()), *self._far)
        near = _scaled_whole_all(rng.random(self._servers), *self._near) * self.slot_s
        return size, own | {
            "epochs": _scaled_whole(at[0], *self._ranges["epochs"]),
            "worker_type": self._kinds[int(kind * len(self._kinds))], "upload_s": near.tolist(),
            "cloud_upload_s": delay * self.slot_s, "chunk_bytes": self._chunk_bytes}


class _Arrivals:
    """Draws the arrivals of jobs, in slots."""

    def __init__(self, span: int, peaks: Sequence[float], width: float, share: float) -> None:
        as_share = partial(as_number, least=0, most=1)
        self.span = max(span, 1)
        self.width, self.share = as_share(width, "peak_width"), as_share(share, "in_peaks")
        with about("peaks"):
            self.peaks = [as_share(each, "peaks: each")
                          for each in as_list(peaks, "peaks", int | float, "numbers")]
            if self.share > 0 and not self.peaks:
                raise InputError(f"in_peaks is {self.share}, but there are no peaks")

    def of(self, seed: int, job: int) -> int:
        rng = stream(seed, "arrival of an edge job", job)
        which, where = rng.random(2).tolist()
        if which < self.share:
            peak = self.peaks[int(which / self.share * len(self.peaks))]
            where = peak + self.width * float(rng.standard_normal())
        return int(min(max(math.floor(where * self.span), 0), self.span - 1))


# --- options -------------------------------------------------------------------------------


def _kinds(types: object) -> Sequence[Kind]:
    types = plain(types)
    if is_whole(types):
        return range(as_whole(types, "types", 1, 10**6))
    kinds: tuple[Kind, ...] = as_list(types, "types", str | int, "names and numbers")
    if not kinds:
        raise InputError("types must not be empty", "types")
    return kinds


def as_counts(values: object, what: str) -> tuple[int, ...]:
    """Convert a list of whole numbers of at least 1."""
    with about(what):
        counts = as_list(values, what, int, "whole numbers")
        if not counts:
            raise InputError(f"{what} must not be empty")
        return tuple(as_whole(each, f"{what}: each", 1) for each in counts)


def _scaled(u: float, least: float, most: float) -> float:
    """Scale a uniform number in [0, 1) to a range."""
    return least + u * (most - least)


def _scaled_whole(u: float, least: int, most: int) -> int:
    """Scale a uniform number in [0, 1) to the whole numbers of a range, both ends included."""
    return least + int(u * (most - least + 1))


def _scaled_whole_all(u: Floats, least: int, most: int) -> Ints:
    return least + (u * (most - least + 1)).astype(np.int64)
