"""The fabric under ring-contention, counting running jobs, against the equations of Section 2.

Jobs are placed by hand: they run on fixed servers from a given instant to their last iteration.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.cluster import RingLayout, ring_stages
from tests.examples import examples

SERVERS = 4
#: b_e and b_i in bytes/s, C in bytes/s, xi2 in s per server.
INTER, INTRA, REDUCTION, PER_SERVER = 1e9, 8e9, 16e9, 0.003


@dataclass(frozen=True)
class Placed:
    """A job placed by hand: where, from when on, how many iterations, m in bytes, c in s."""

    workers: tuple
    starts: float
    iterations: int
    nbytes: float
    compute_s: float

    @property
    def servers(self):
        return {server for server, _ in self.workers}

    @property
    def multi(self):
        return len(self.servers) > 1


@dataclass(frozen=True)
class Model:
    """Section 2 of the specification, as it stands there."""

    alpha: float = 0.5
    xi1: float = 1.0
    k_min: float = 1.0

    def bandwidth(self, job, running):
        """B_j among the running jobs, `job` included."""
        if not job.multi:
            return INTRA
        n = {s: sum(other.multi and s in other.servers for other in running) for s in job.servers}
        k = max(self.k_min, self.xi1 * max(n.values()))
        return INTER / (k + self.alpha * (k - 1))

    def computation(self, job):
        """All of tau but the exchange: c + gamma + m(w-1)/w/C."""
        w = len(job.workers)
        return (job.nbytes * (w - 1) / w / REDUCTION + PER_SERVER * len(job.servers)
                + job.compute_s)

    def exchanged(self, job):
        """2m(w-1)/w bytes."""
        w = len(job.workers)
        return 2 * job.nbytes * (w - 1) / w

    def tau(self, job, running):
        return self.exchanged(job) / self.bandwidth(job, running) + self.computation(job)


def simulate(jobs, model, net=None, stepwise=False):
    """Return [start, end of iteration 1, 2, ...] of each job on the fabric."""
    specs = []
    for number, job in enumerate(jobs):
        ring = RingLayout(job.workers)
        stages = ring_stages(ring, job.nbytes, compute_s=job.compute_s, server_s=PER_SERVER,
                             reduction=REDUCTION, intra=INTRA, stepwise=stepwise)
        specs.append(netsim.JobSpec(number, job.starts, job.iterations, stages,
                                    hosts=ring.servers, ranks=len(ring.servers)))
    result = netsim.simulate(net or netsim.big_switch(SERVERS, INTER), specs, allocator={
        "name": "ring-contention", "count": "running", "alpha": model.alpha, "xi1": model.xi1,
        "k_min": model.k_min})
    coflows, jobs_frame = result.coflows, result.jobs.set_index("job")
    ends = []
    for number, job in enumerate(jobs):
        found = coflows[coflows["job"] == number].groupby("iteration")["finish_s"].max().tolist()
        ends.append([job.starts, *(found or [jobs_frame["finish_s"][number]])])
    return ends


def phases(jobs, model):
    """Return the same as `simulate`, from phase to phase: computation, then the bytes at B_j.

    Who exchanges inside a server exchanges at b_i, whatever others do.
    """
    now, waiting, running, ends = 0.0, set(range(len(jobs))), set(), [[job.starts] for job in jobs]
    left = {}  # of the computation in s, of the exchange in bytes
    while waiting or running:
        among = [jobs[k] for k in running]
        dt = min([jobs[k].starts - now for k in waiting] + [
            left[k][0] or left[k][1] / model.bandwidth(jobs[k], among) for k in running])
        now += dt
        for k in sorted(running):
            job, (seconds, nbytes) = jobs[k], left[k]
            if seconds:
                left[k] = max(seconds - dt, 0.0) if seconds - dt > 1e-12 else 0.0, nbytes
                continue
            nbytes -= dt * model.bandwidth(job, among)
            left[k] = 0.0, nbytes
            if nbytes > 1e-3:
                continue
            ends[k].append(now)
            left[k] = model.computation(job), model.exchanged(job)
            if len(ends[k]) > job.iterations:
                running.discard(k)
        for k in [k for k in waiting if jobs[k].starts <= now + 1e-12]:
            waiting.discard(k)
            running.add(k)
            left[k] = model.computation(jobs[k]), model.exchanged(jobs[k])
    return ends


def undisturbed(jobs, ends, model):
    """Yield (measured, tau) of each iteration during which no multi job has begun or ended."""
    changes = [at for job, times in zip(jobs, ends, strict=True) if job.multi
               for at in (times[0], times[-1])]
    for job, times in zip(jobs, ends, strict=True):
        if not job.multi:
            continue
        for start, end in pairwise(times):
            if any(start + 1e-9 < at < end - 1e-9 for at in changes):
                continue
            middle = (start + end) / 2
            running = [other for other, its in zip(jobs, ends, strict=True)
                       if its[0] < middle < its[-1]]
            yield end - start, model.tau(job, running)


def workers(*servers, each=1):
    return tuple((server, gpu) for server in servers for gpu in range(each))


#: None of them overloads a port: the rates of those would be rescaled, which tau_j is not.
MODELS = [Model(alpha=0.0), Model(alpha=0.5), Model(alpha=2.0, xi1=0.75),
          Model(alpha=1.0, k_min=1.5)]
IDS = [f"alpha={model.alpha}-xi1={model.xi1}-k_min={model.k_min}" for model in MODELS]


@pytest.mark.parametrize("model", MODELS, ids=IDS)
@pytest.mark.parametrize("stepwise", [False, True])
def test_all_iterations_of_a_set_of_jobs(model, stepwise):
    """Four jobs from 0 on, of which none ends before the others' first 20 iterations: all tau_j.

    One of them is on one server, and counts for nobody.
    """
    jobs = [Placed(workers(0, 1), 0.0, 60, 80e6, 0.02),
            Placed(workers(1, 2, each=2), 0.0, 60, 60e6, 0.03),
            Placed(workers(1, 3), 0.0, 60, 90e6, 0.01),
            Placed(workers(1, each=4), 0.0, 60, 50e6, 0.04)]
    ends = simulate(jobs, model, stepwise=stepwise)
    for job, times in zip(jobs, ends, strict=True):
        expected = model.tau(job, jobs)
        if job.multi:
            assert np.diff(times)[:20] == pytest.approx(expected, rel=1e-9)
        else:
            assert times[-1] == pytest.approx(60 * expected, rel=1e-9)
    assert len([*undisturbed(jobs, ends, model)]) > 100
    for measured, expected in undisturbed(jobs, ends, model):
        assert measured == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_starts_and_exits(model):
    """Two jobs, a third one beside them, a fourth when that has gone: tau_j before and after.

    Iterations that a start or an exit falls into change speed half-way; see `phases`.
    """
    jobs = [Placed(workers(0, 1), 0.0, 40, 80e6, 0.02),
            Placed(workers(1, 2), 0.0, 15, 40e6, 0.01),
            Placed(workers(0, 2, 3), 1.0, 8, 70e6, 0.05),
            Placed(workers(1, 3, each=2), 5.0, 9, 90e6, 0.03),
            Placed(workers(3, each=2), 0.5, 50, 50e6, 0.04)]
    ends = simulate(jobs, model)
    for measured, expected in undisturbed(jobs, ends, model):
        assert measured == pytest.approx(expected, rel=1e-9)
    speeds = {round(float(each), 6) for each in np.diff(ends[0])}
    assert len(speeds) >= 3, "the scenario changes nothing"
    agree(ends, phases(jobs, model))


def agree(ends, expected):
    """Of a job on one server only the end is known: it has no coflows."""
    for found, wanted in zip(ends, expected, strict=True):
        wanted = wanted if len(found) > 2 else [wanted[0], wanted[-1]]
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12)


PLACED = st.builds(
    Placed,
    workers=st.sets(st.tuples(st.integers(0, SERVERS - 1), st.integers(0, 3)), min_size=1,
                    max_size=6).map(tuple),
    starts=st.integers(0, 40).map(lambda k: k / 17), iterations=st.integers(2, 6),
    nbytes=st.integers(1, 50).map(lambda k: k * 3.7e6),
    compute_s=st.integers(0, 30).map(lambda k: k * 0.0031))


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(PLACED, min_size=1, max_size=5), st.sampled_from(MODELS))
def test_any_jobs(jobs, model):
    ends = simulate(jobs, model)
    for measured, expected in undisturbed(jobs, ends, model):
        assert measured == pytest.approx(expected, rel=1e-9)
    agree(ends, phases(jobs, model))
