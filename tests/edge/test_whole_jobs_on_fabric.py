"""Whole jobs on an edge-cloud's links: as with constant delays if these are wide; and by pencil.

In cases by pencil links carry 1 MB/s unless said otherwise.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import EdgeCloud
from netsim.errors import InputError, NetsimError, StalledError
from tests.edge.test_invariants import jobs_on, systems
from tests.edge.test_on_fabric import MB, MODES, job, run, system
from tests.examples import examples

SCHEDULERS = ("srtf", "srsf", "fifo", "sjf", "las:quantum_s=2", "gandiva-rr:quantum_s=3",
              "batch:first=2:slot=1s", "batch:mode=periodic:first=1:slot=1s", "tiresias-l",
              {"name": "tiresias", "thresholds": [3, 9], "promote_knob": 1},
              {"name": "tiresias", "thresholds": [3, 9], "service": "run"})

#: What must be the same.
SAME = {"jobs": ["start_s", "finish_s", "preemptions", "cloud_chunks", "waited_s",
                 "held_gpu_s", "useful_gpu_s", "overhead_gpu_s"],
        "training": ["job", "server", "worker", "start_s", "end_s"],
        "ps": ["job", "server", "ps", "start_s", "end_s"], "servers": ["peak_bytes"]}
#: What preemption costs.
COSTS = (None, {"restore_s": 0.5}, {"checkpoint_s": 1, "restore_s": 0.25})
COUNTS = ("preempted_workers", "migrations", "cloud_jobs", "ps_shortages")


@st.composite
def instances(draw):
    """Draw a system with wide links, and jobs."""
    drawn = draw(systems())
    wide = EdgeCloud(drawn.workers, ps=drawn.ps, storage=draw(st.sampled_from([np.inf, 10, 5])),
                     cloud=draw(st.booleans()), edge_links=1e9, wan=1e9)
    return wide, draw(jobs_on(wide))


@settings(max_examples=examples(60), deadline=None)
@given(instances(), st.sampled_from(SCHEDULERS), st.sampled_from(MODES), st.sampled_from([0, 0.5]),
       st.sampled_from(["maxmin", "sebf", "fifo"]), st.sampled_from(COSTS))
def test_on_wide_links_all_is_as_with_constant_delays(instance, scheduler, mode, epsilon,
                                                      allocator, costs):
    options = {"scheduler": scheduler, "epsilon": epsilon, "preemption": costs}
    try:
        wanted = netsim.simulate(*instance, **options)
    except NetsimError:
        return  # storage is too small
    found = netsim.simulate(*instance, transport=f"fabric:mode={mode}", allocator=allocator,
                            **options)
    for name, columns in SAME.items():
        one, other = (getattr(each, name)[columns].to_numpy(float) for each in (found, wanted))
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9, nan_ok=True), name
    one, other = found.summary(), wanted.summary()
    assert [one[name] for name in COUNTS] == [other[name] for name in COUNTS]


# --- data ----------------------------------------------------------------------------------


def data(number=0, **options):
    """Return a job of one chunk of 10 MB, which could be there after 10 s."""
    return job(number, **{"chunk_bytes": 10 * MB, "upload_s": 10} | options)


@pytest.mark.parametrize(("allocator", "ends"), [("maxmin", [21, 21]), ("fifo", [11, 21])])
@pytest.mark.parametrize("mode", MODES)
def test_uploads_of_two_jobs_share_a_link(mode, allocator, ends):
    """Two times 10 MB that could each come at 1 MB/s, into one server: 20 s fairly, then 1 s.

    In order, job 0 has all of the link until 10 s, and job 1 from then on.
    """
    found = run(system(2), data(0), data(1), scheduler="srtf", allocator=allocator, mode=mode)
    assert found.jobs["finish_s"].tolist() == pytest.approx(ends)
    assert found.jobs["communication_s"].tolist() == pytest.approx([end - 1 for end in ends])


def test_an_upload_goes_on_while_its_job_is_suspended():
    """Job 0 holds the worker from 0, loses it from 2 to 5 s, and has its data at 10 s, for 20 s.

    If the link is dead from 3 to 8 s, it has its data at 15 s.
    """
    jobs = data(0, compute_s=20), job(1, arrival_s=2, compute_s=3)
    assert run(system(1), *jobs, scheduler="srtf").jobs["finish_s"].tolist() == [30, 5]
    dead = [{"at": 3, "link": "ingress-0", "capacity": 0},
            {"at": 8, "link": "ingress-0", "capacity": MB}]
    found = run(system(1), *jobs, scheduler="srtf", events=dead, record=["links"])
    assert found.jobs["finish_s"].tolist() == [35, 5]
    assert found.jobs["preemptions"].tolist() == [1, 0]
    assert found.links[found.links["link"] == "ingress-0"]["bytes"].sum() == 10 * MB
    with pytest.raises(StalledError, match="allocator MaxMin gives no bandwidth to the flows of"):
        run(system(1), *jobs, scheduler="srtf", events=dead[:1])


@pytest.mark.parametrize(("site", "uploads"), [(9 * MB, 30), (MB, 37)])
def test_a_chunk_is_sent_to_two_servers_at_once(site, uploads):
    """Job 0, of 50 s, is to have its data after 20 or 10 s, and gets server 1.

    Job 1 takes both servers from 2 to 3 s. Then job 2, of 30 s, comes before job 0, which gets
    server 0: it sends there from 3 to 23 s, at 0.5 MB/s, and is done at 73 s. The other upload goes
    on: until 10 s; or if both share a link of their site of 1 MB/s, at 0.5 MB/s from 3 s on, with
    7 MB left: until 17 s.
    """
    jobs = (data(0, compute_s=50, upload_s=[20, 10]), job(1, arrival_s=2, chunks=2),
            job(2, arrival_s=2.5, compute_s=30, upload_s=[9, 0]))
    net = netsim.big_switch(4, [9 * MB, 9 * MB, 9 * MB, site])
    found = run(system(1, 1, topology=net), *jobs, scheduler="srtf")
    assert found.jobs["finish_s"].tolist() == pytest.approx([73, 3, 33])
    assert found.summary()["migrations"] == 1
    assert found.jobs["communication_s"].tolist() == pytest.approx([uploads, 0, 0])


def test_no_more_is_sent_of_a_job_that_has_ended():
    """Job 1, of 4 s, is to have its data after 2 or 40 s, and job 0 has server 0 until 3 s.

    Job 2 takes server 1 from it, from 1 to 3.5 s. So from 3 s on it sends to server 0, until 5 s,
    and ends at 9 s, when 0.25 MB/s were sent to server 1 since 0.
    """
    jobs = (job(0, compute_s=3), data(1, compute_s=4, upload_s=[2, 40]),
            job(2, arrival_s=1, compute_s=2.5))
    found = run(system(1, 1, edge_links=9 * MB), *jobs, scheduler="srtf", record=["links"])
    assert found.jobs["finish_s"].tolist() == pytest.approx([3, 9, 3.5])
    carried = found.links.groupby("link", observed=False)["bytes"].sum()
    assert carried["ingress-0"] == pytest.approx(10 * MB)
    assert carried["ingress-1"] == pytest.approx(9 * 0.25 * MB)


def test_a_job_in_the_cloud_has_its_data_over_the_wan():
    """Dispatched at 1 s, 10 MB at 0.5 MB/s, ten mini-batches of 1 s: no worker is of its type."""
    cloud = EdgeCloud([["other"]], edge_links=MB, wan=MB / 2)
    whole = data(minibatches=10, gradient_bytes=MB, cloud_upload_s=1)
    with pytest.warns(netsim.NetsimWarning, match="everything goes to the cloud"):
        found = run(cloud, whole, scheduler="batch:first=1:slot=1s")
    assert found.jobs["finish_s"].tolist() == [31]
    assert found.jobs["communication_s"].tolist() == [20]
    assert found.ps["server"].tolist() == [-1]


def test_what_a_scheduler_expects_of_data_that_is_late():
    """Slices of 3 s of progress: job 0 should have its data at 10 s, and has it at 20.

    Its slice then lasts until 23 s, when job 1 gets the worker.
    """
    jobs = data(0, compute_s=5), job(1, arrival_s=1, compute_s=1)
    found = run(system(1, edge_links=MB / 2), *jobs, scheduler="gandiva-rr:quantum_s=3")
    assert found.jobs["finish_s"].tolist() == pytest.approx([26, 24])


# --- training ------------------------------------------------------------------------------


@pytest.mark.parametrize(("chunks", "end"), [(4, 2 * 3 * 5.5), (3, 3 * 5.5 + 3 * 3.5)])
@pytest.mark.parametrize("mode", MODES)
def test_workers_of_a_job_share_the_link_of_its_ps(mode, chunks, end):
    """Two workers train chunks of three mini-batches: 1 + 2 + 0.5 + 2 s, or alone 1 + 1 + 0.5 + 1.

    Of three chunks, worker 0 trains two, and is alone for its second one.
    """
    whole = job(chunks=chunks, gang=2, minibatches=3, update_s=0.5, gradient_bytes=MB)
    found = run(system(1, 1, 0, ps=[0, 0, 1]), whole, mode=mode, scheduler="srtf", record=["links"])
    assert found.jobs["finish_s"].tolist() == pytest.approx([end])
    assert found.training["end_s"].tolist() == pytest.approx([end, end])
    into_ps = found.links[found.links["link"] == "ingress-2"]["bytes"].sum()
    assert into_ps == pytest.approx(chunks * 3 * MB)
    spent = {4: 2 * end, 3: end + 3 * 5.5}[chunks]
    assert found.jobs["communication_s"].tolist() == pytest.approx([spent - chunks * 3 * 1.5])


@pytest.mark.parametrize("mode", ["exact", "sync"])
@pytest.mark.parametrize("at", [0.5, 1.5, 3.25, 4.5, 5.0, 6.0])
def test_a_preempted_job_goes_on_within_its_mini_batch(mode, at):
    """Two mini-batches of 1 + 2 + 1 + 2 s on two workers that share a link; then somebody has 1 s.

    Whatever it was at, job 0 ends after 12 s of training, and 1 s later.
    """
    jobs = (job(0, chunks=2, update_s=1, minibatches=2, gradient_bytes=MB),
            job(1, chunks=2, arrival_s=at))
    found = run(system(2, 0, ps=[0, 1]), *jobs, scheduler="srtf", mode=mode)
    assert found.jobs["finish_s"].tolist() == pytest.approx([13, at + 1])
    assert found.jobs["preemptions"].tolist() == [1, 0]


def test_together_workers_on_unlike_links_go_on_with_what_each_has_left():
    """Server 1 has half a link: pushes of 1 and 2 s. At 2.5 s, one has ended, and 0.25 MB is left.

    A mini-batch takes 1 + 2 + 2 s, and somebody takes 1 s in the middle of it.
    """
    jobs = job(0, chunks=2, gradient_bytes=MB), job(1, chunks=2, arrival_s=2.5)
    cloud = system(1, 1, 0, ps=[0, 0, 1], edge_links=[MB, MB / 2, 9 * MB])
    found = run(cloud, *jobs, scheduler="srtf", mode="sync")
    assert found.jobs["finish_s"].tolist() == pytest.approx([6, 3.5])


@pytest.mark.parametrize(("mode", "preemption"), [("exact", "drop"), ("exact", "finish"),
                                                  ("sync", "finish")])
def test_a_whole_job_always_pauses(mode, preemption):
    with pytest.raises(InputError, match=f"'srtf' needs a transport of whole jobs: preemption "
                                         f"'{preemption}' is for schedulers of chunks"):
        run(system(1), job(), scheduler="srtf", mode=mode, preemption=preemption)


class OfChunks:
    """A transport that knows no whole jobs."""

    shares_links = False

    def begin(self, setting, sharing):
        raise NotImplementedError


def test_a_transport_of_chunks_alone():
    with pytest.raises(InputError, match=r"transport '.*OfChunks' is for schedulers of chunks"):
        netsim.simulate(system(1), [job()], scheduler="srtf", transport=OfChunks())
