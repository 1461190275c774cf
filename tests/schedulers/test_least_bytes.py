"""A_online with `least_bytes`: no job ends later than planned, and no such plan sends less."""

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings

import netsim
from netsim import EdgeCloud, EdgeJob
from netsim.edge.schedule import ChunkPlacement
from netsim.errors import InputError, UnknownNameError
from netsim.schedulers.a_online import AOnline
from tests.edge.test_invariants import instances, unlimited
from tests.examples import examples


@dataclass(frozen=True)
class Fixed(AOnline):
    """A_online, except for the last job, whose chunks go to given workers."""

    workers: tuple[int, ...] = ()

    needs: ClassVar[Any] = ()

    def dispatcher(self, setting):
        greedy = AOnline().dispatcher(setting)

        class Last:
            def place(_, job, queues, storage):
                given = greedy.place(job, queues, storage)
                if job < len(setting.jobs) - 1:
                    return given
                return ChunkPlacement(np.array(self.workers), given.alpha, given.t_star)

        return Last()


def job(number=0, **options):
    return EdgeJob(**{"id": number, "worker_type": "a", "compute_s": 4.0, "gradient_bytes": 1,
                      "bandwidth": 1} | options)


def test_a_job_that_would_be_split_goes_to_the_cloud():
    """Two chunks of 4 + 2 s. One has the worker from 0 to 6 s; the other would wait until 12 s.

    The cloud has it at 5 s and trains until 11 s, with exchanges. Without, all end there at 9 s.
    """
    system, jobs = EdgeCloud([["a"]]), [job(chunks=2, cloud_upload_s=5)]
    split, least = (netsim.simulate(system, jobs, scheduler=f"a-online:least_bytes={value}")
                    for value in ("false", "true"))
    assert split.chunks["server"].tolist() == [0, -1]
    assert split.jobs[["jct_s", "bytes"]].to_numpy().tolist() == [[11, 4]]
    assert least.jobs[["jct_s", "bytes", "zeta"]].to_numpy().tolist() == [[9, 0, 1]]
    assert least.chunks["alpha_s"].tolist() == [(5 + 4) / 2] * 2


@pytest.mark.parametrize(("cloud_upload_s", "zeta"), [(1.9, 1), (2, 1), (2.1, 0)])
def test_it_goes_there_if_it_ends_no_later(cloud_upload_s, zeta):
    """On the worker it ends at 6 s, in the cloud 4 s after its upload: the least Q is equal at 2 s.

    Without the option, a tie goes to the edge.
    """
    system, jobs = EdgeCloud([["a"]]), [job(cloud_upload_s=cloud_upload_s)]
    found = netsim.simulate(system, jobs, scheduler="a-online:least_bytes=true")
    assert found.jobs["zeta"].tolist() == [zeta]
    plain = netsim.simulate(system, jobs, scheduler="a-online")
    assert plain.jobs["zeta"].tolist() == [zeta and int(cloud_upload_s < 2)]


@settings(max_examples=examples(25), deadline=None)
@given(instances())
def test_no_placement_without_a_later_end_sends_less(instance):
    """Of all placements of the last job, given those of the others, which A_online makes."""
    system, workload = unlimited(instance[0]), instance[1]
    last = workload.jobs[-1]
    plain = netsim.simulate(system, workload, scheduler="a-online").jobs

    class Least(AOnline):
        """The option for the last job alone."""

        def dispatcher(self, setting):
            greedy, least = (AOnline(value).dispatcher(setting) for value in (False, True))

            class Which:
                def place(_, job, queues, storage):
                    each = greedy if job < len(setting.jobs) - 1 else least
                    return each.place(job, queues, storage)

            return Which()

    def no_later(jobs):
        return (jobs["finish_s"] <= plain["finish_s"] * (1 + 1e-9)).all()

    found = netsim.simulate(system, workload, scheduler=Least()).jobs
    assert no_later(found)
    assert found["bytes"].sum() <= plain["bytes"].sum()
    places = [-1, *system.of_type(last.worker_type).tolist()]
    for workers in product(places, repeat=min(last.chunks, 2)):
        every = (*workers, *workers[-1:] * (last.chunks - len(workers)))
        other = netsim.simulate(system, workload, scheduler=Fixed(workers=every)).jobs
        if no_later(other):
            assert other["bytes"].sum() >= found["bytes"].sum() * (1 - 1e-12)


def test_what_is_refused():
    with pytest.raises(InputError, match="least_bytes must be true or false, not 3"):
        netsim.simulate(EdgeCloud([["a"]]), [job()], scheduler="a-online:least_bytes=3")
    with pytest.raises(UnknownNameError, match="unknown option of scheduler 'a-online-e' 'least_b"):
        netsim.simulate(EdgeCloud([["a"]]), [job()], scheduler="a-online-e:least_bytes=true")
