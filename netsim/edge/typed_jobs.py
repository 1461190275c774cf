"""Whole jobs that need one type of workers, as jobs of a cluster, and their placement near data."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.cluster.cluster import Cluster
from netsim.cluster.context import RunContext
from netsim.edge.edge_cloud import Kind
from netsim.edge.job_data import JobData, shares
from netsim.edge.setting import EdgeSetting
from netsim.ties import merge_equal
from netsim.workload import JobSpec


class TypedJobs:
    """The jobs of a run that need workers of one type, which are the GPUs of a `Cluster`.

    Each job is a job of this cluster, with one iteration, and one rank per worker that it wants or,
    if there are fewer workers, one rank per worker. A type without workers also gets a cluster, but
    its GPUs may not be used.
    """

    def __init__(self, setting: EdgeSetting, kind: Kind) -> None:
        system = setting.system
        self.setting = setting
        self.workers = system.of_type(kind)  #: the worker that each GPU of the cluster stands for
        counts = np.unique(system.server_of[self.workers], return_counts=True)[1]
        self.cluster = Cluster(gpus=counts.tolist() or [1], name=system.name)
        #: The index of each job in the setting, in order.
        self.numbers = [k for k, job in enumerate(setting.jobs) if job.worker_type == kind]
        self.specs = tuple(map(self._spec, self.numbers))
        self._place = {spec.id: k for k, spec in enumerate(self.specs)}

    def _spec(self, number: int) -> JobSpec:
        job = self.setting.jobs[number]
        size = min(job.workers, max(len(self.workers), 1))
        return JobSpec(job.id, job.arrival_s, pattern="parameter-server", ranks=size,
                       nbytes=job.gradient_bytes, name=job.name, weight=job.weight,
                       group=job.group, estimate_s=self._seconds(number, size))

    def _seconds(self, number: int, workers: int) -> float:
        if not self.setting.ring[number]:
            return -(-int(self.setting.chunks[number]) // workers) * float(self.setting.p0[number])
        job = self.setting.jobs[number]
        return sum(count * job.chunk_s(members) for count, members in self._rings(number, workers)
                   ) / (1 + self.setting.epsilon)

    def _rings(self, number: int, workers: int) -> list[tuple[int, int]]:
        """The phases of a ring: how many chunks each worker trains, and the number of workers.

        Each of k workers trains floor(D / k) chunks, one after the other. Then the ring has as many
        workers as there are chunks left, and the others wait.
        """
        each, rest = divmod(int(self.setting.chunks[number]), workers)
        return [(count, members) for count, members in ((each, workers), (1, rest))
                if count and members]

    def seconds(self, job: int, workers: int) -> float:
        """Training time of a job on `workers` workers, or in the cloud if 0."""
        number = self.numbers[job]
        return self._seconds(number, workers) if workers else float(self.setting.p1[number])

    def batches(self, job: int, workers: int) -> int:
        """The largest number of mini-batches that a worker trains one after the other.

        In the cloud (`workers` is 0), all chunks train at once.
        """
        number = self.numbers[job]
        chunks = int(self.setting.chunks[number])
        return (-(-chunks // int(workers)) if workers else 1) * self.setting.jobs[number].batches

    def ring_bytes(self, job: int, workers: int) -> float:
        """Bytes that all workers of a ring send while the job trains; 0 in the cloud."""
        number = self.numbers[job]
        spec = self.setting.jobs[number]
        return sum(count * spec.batches * members * spec.exchange_bytes(members)
                   for count, members in (self._rings(number, workers) if workers else ()))

    def sizes(self, job: int) -> range:
        """The numbers of workers with which a job can train; 0 stands for the cloud."""
        least = 0 if self.setting.system.cloud else 1
        return range(least, int(self.setting.chunks[self.numbers[job]]) + 1)

    def place_of(self, spec: JobSpec) -> int:
        """The position of a job among these jobs, given its `JobSpec`."""
        return self._place[spec.id]

    def make_room(self, number: int) -> None:
        """Renumber jobs after one has been inserted in the setting."""
        self.numbers = [each + (each >= number) for each in self.numbers]

    def insert(self, number: int) -> int:
        """Add a job that has been inserted in the setting; return its position among these jobs."""
        place = bisect_left(self.numbers, number)
        self.numbers.insert(place, number)
        self.specs = (*self.specs[:place], self._spec(number), *self.specs[place:])
        self._place = {spec.id: k for k, spec in enumerate(self.specs)}
        return place


@dataclass(frozen=True, kw_only=True)
class EdgeContext(RunContext):
    """Information about a run of the whole jobs of an edge-cloud that need one type of workers."""

    #: The jobs and workers behind `jobs` and `cluster`; updated during the run.
    typed: TypedJobs


class NearData:
    """A placement on workers where the job's data is, or arrives soonest.

    Workers on servers that have the job's data come first, then those with the least upload delay,
    then those with the lowest number. A worker is only taken if its server has room for the chunks
    that it would train. If too few workers qualify, the job waits.
    """

    def __init__(self, typed: TypedJobs, data: JobData, taken: Floats | None = None) -> None:
        # `taken`: bytes of storage, by server, promised to jobs that have not started yet.
        self._typed, self._data, self._taken = typed, data, taken

    @property
    def refuses(self) -> bool:
        """Whether the placement may refuse a job although enough workers are free."""
        return self._data.storage.limited

    def trial(self) -> NearData:
        """Make a placement for several jobs, which share the storage that is left."""
        servers = self._typed.setting.system.servers
        return NearData(self._typed, self._data, np.zeros(servers)) if self.refuses else self

    def scope(self, cluster: Cluster, job: JobSpec, load: Floats) -> Ints:
        """All GPUs in order of preference; see `Placement`."""
        typed, number = self._typed, self._typed.numbers[self._typed.place_of(job)]
        server = typed.setting.system.server_of[typed.workers]
        fetched = ~np.isin(server, self._data.servers(number))
        delay = merge_equal(typed.setting.delays[number, server])
        return np.lexsort((np.arange(len(server)), delay, fetched))

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats) -> Ints | None:
        """Take the first candidates with storage for their chunks; see `Placement`."""
        return self.some(job, candidates, job.ranks)

    def some(self, job: JobSpec, candidates: Ints, count: int) -> Ints | None:
        """Take the first `count` candidates with storage for their chunks; None if too few have it.

        Those that will train more chunks than others come first.
        """
        typed, number = self._typed, self._typed.numbers[self._typed.place_of(job)]
        storage = self._data.storage
        if not storage.limits(number):
            return candidates[:count]
        room = storage.room(number, 0.0 if self._taken is None else self._taken)
        server = typed.setting.system.server_of[typed.workers]
        chosen: list[int] = []
        left = candidates.tolist()
        for share in shares(int(typed.setting.chunks[number]), count).tolist():
            found = next((gpu for gpu in left if room[server[gpu]] >= share), None)
            if found is None:
                return None
            left.remove(found)
            chosen.append(found)
            room[server[found]] -= share
        gpus = np.array(chosen)
        if self._taken is not None:
            self._taken = self._taken + self._data.added(number, typed.workers[gpus])
        return gpus
