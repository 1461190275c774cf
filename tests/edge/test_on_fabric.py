"""The fabric transport of edge-clouds on cases small enough for a pencil.

Links carry 1 MB/s unless said otherwise, and jobs have chunks of nothing.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import EdgeCloud, EdgeJob
from netsim.allocators import ALLOCATORS as ALL
from netsim.errors import AllocationError, InputError, StalledError, UnknownNameError
from netsim.fabric.allocation import Allocation
from netsim.fabric.allocator import Allocator
from tests.edge.test_invariants import check_ps, instances, unlimited
from tests.examples import examples

MB = 1e6
MODES = ("fluid", "exact", "sync")


def system(*workers, ps=1, **options):
    links = {"edge_links": MB, "wan": MB} | options
    return EdgeCloud([["gpu"] * count for count in workers], ps=ps, **links)


def job(number=0, **options):
    given = {"worker_type": "gpu", "compute_s": 1.0, "cloud_upload_s": 1e6, "bandwidth": MB}
    return EdgeJob(id=number, **given | options)


def run(cloud, *jobs, mode="fluid", **options):
    name = {"name": "fabric", "mode": mode}
    name |= {key: options.pop(key) for key in ("preemption", "speed", "sharing") if key in options}
    return netsim.simulate(cloud, jobs, transport=name, **{"scheduler": "a-online-e"} | options)


def finish(*arguments, **options):
    return run(*arguments, **options).jobs["finish_s"].tolist()


# --- uploads -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_uploads_share_a_link(mode):
    """Two chunks of 10 MB in 10 s each want 1 MB/s, and so does their link: 20 s, then 1 s."""
    two = job(chunks=2, chunk_bytes=10 * MB, upload_s=10)
    found = run(system(2), two, mode=mode)
    assert found.chunks["ready_s"].tolist() == [20, 20]
    assert found.jobs["finish_s"].tolist() == [21]
    assert found.jobs["uploaded_s"].tolist() == [20]
    assert found.chunks["delay_ratio"].tolist() == [2, 2]
    assert found.summary()["delay_ratio_mean"] == 2
    assert found.summary()["rate_ratio_mean"] == 1


def test_an_upload_is_as_fast_as_its_delay_says_at_most():
    """10 MB in 20 s, on a link that could have them there in 10."""
    assert finish(system(1), job(chunk_bytes=10 * MB, upload_s=20)) == [21]


def test_a_chunk_trains_when_its_own_upload_has_ended():
    """One of 10 MB over 10 s to each server; the second one's link is half as fast: 20 s."""
    two = job(chunks=2, chunk_bytes=10 * MB, upload_s=10)
    found = run(system(1, 1, edge_links=[MB, MB / 2]), two)
    assert found.chunks["ready_s"].tolist() == [10, 20]
    assert found.chunks["start_s"].tolist() == [10, 20]


def test_what_is_there_already_is_not_sent():
    assert finish(system(1), job(chunk_bytes=10 * MB, upload_s=0)) == [1]


def test_a_delay_without_bytes_takes_what_it_says():
    assert finish(system(1), job(chunk_bytes=0, upload_s=7)) == [8]


@pytest.mark.parametrize(("allocator", "ends"), [("maxmin", [31, 31]), ("fifo", [21, 31]),
                                                 ("sebf", [31, 11])])
def test_the_uploads_of_a_job_are_a_coflow(allocator, ends):
    """Jobs of two chunks and one, of 10 MB that could each go at 1 MB/s, to one server.

    Fairly, each has a third of the link, and all end at 30 s. In order, job 0 has it until 20 s;
    the smaller one first, job 1 has it until 10 s. Then they train for 1 s.
    """
    two, one = (job(0, chunks=2, chunk_bytes=10 * MB, upload_s=10),
                job(1, chunk_bytes=10 * MB, upload_s=10))
    assert finish(system(3), two, one, allocator=allocator) == pytest.approx(ends)


def test_uploads_from_a_site_of_its_own():
    """Hosts: two servers, the cloud, two sites, of which the second is slow: 20 s for 10 MB."""
    net = netsim.big_switch(5, [MB, MB, MB, MB, MB / 2])
    cloud = system(1, 1, topology=net)
    jobs = [job(k, chunk_bytes=10 * MB, upload_s=10, site=k) for k in range(2)]
    assert finish(cloud, *jobs) == [11, 21]
    with pytest.raises(InputError, match="there is no site 2: network 'big-switch' has 2 hosts"):
        run(cloud, job(site=2))


# --- exchanges -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_workers_share_the_link_of_their_server(mode):
    """Two workers push to a PS elsewhere, and pull from it: each 1 MB over half of 1 MB/s.

    A mini-batch takes 1 + 2 + 0.5 + 2 s rather than 1 + 1 + 0.5 + 1, and there are three.
    """
    two = job(chunks=2, minibatches=3, update_s=0.5, gradient_bytes=MB)
    found = run(system(1, 1, 0, ps=[0, 0, 1]), two, mode=mode)
    assert found.jobs["finish_s"].tolist() == pytest.approx([3 * 5.5])
    assert found.chunks["rate_ratio"].tolist() == pytest.approx([3.5 / 5.5] * 2)
    assert found.jobs["communication_s"].tolist() == pytest.approx([2 * 3 * 4])


@pytest.mark.parametrize("mode", MODES)
def test_a_server_exchanges_with_itself_over_no_link(mode):
    """Nothing but the bandwidth of the job, 2 MB/s, limits it: 1 + 0.5 + 0.5 s."""
    assert finish(system(1), job(gradient_bytes=MB, bandwidth=2 * MB), mode=mode) == [2]


def test_who_computes_does_not_send():
    """Exact mini-batches that push and pull at other instants do not share; fluid ones do.

    Chunk 0 begins at 0: computes 2 s, pushes 1 s, pulls 1 s. Chunk 1 begins at 2: it computes
    while the other exchanges, and the other way round. Fluid: from 2 s on both have half of the
    link, and a mini-batch takes 2 + 2 + 2 s.
    """
    jobs = [job(k, arrival_s=2 * k, compute_s=2, minibatches=10, gradient_bytes=MB,
                worker_type="ab"[k]) for k in range(2)]
    cloud = EdgeCloud([["a"], ["b"], []], ps=[0, 0, 2], edge_links=MB, wan=MB)
    assert finish(cloud, *jobs, mode="exact") == pytest.approx([40, 42])
    # After 2 s half a mini-batch is done; 9.5 take 6 s each; then the other one is alone.
    ends = finish(cloud, *jobs, mode="fluid")
    assert ends[0] == pytest.approx(2 + 9.5 * 6)
    assert ends[1] == pytest.approx(ends[0] + (10 - 9.5) * 4)


@pytest.mark.parametrize(("mode", "ends"), [("exact", [9, 15]), ("sync", [15, 15])])
def test_together_the_update_waits_for_all(mode, ends):
    """Server 1 has half a link: its mini-batch takes 1 + 2 + 2 s, that of server 0 1 + 1 + 1 s.

    Together both take 5 s. There are three.
    """
    two = job(chunks=2, minibatches=3, gradient_bytes=MB)
    cloud = system(1, 1, 0, ps=[0, 0, 1], edge_links=[MB, MB / 2, 9 * MB])
    assert run(cloud, two, mode=mode).chunks["finish_s"].tolist() == pytest.approx(ends)


def test_together_who_comes_later_waits_for_the_next_round():
    """Chunk 0 is there at once, chunk 1 after 4 s; a round takes 1 + 1 + 1 s: it joins at 6 s."""
    two = job(chunks=2, minibatches=3, gradient_bytes=MB, upload_s=[0, 4, 0])
    found = run(system(1, 1, 0, ps=[0, 0, 1], edge_links=9 * MB), two, mode="sync").chunks
    assert found["start_s"].tolist() == [0, 4]
    assert found["finish_s"].tolist() == [9, 15]


def test_the_cloud_helps_out_over_the_wan():
    """No PS at the edge: one in the cloud, 0.5 MB/s away: 1 + 2 + 2 s."""
    found = run(system(1, ps=0, wan=MB / 2), job(gradient_bytes=MB))
    assert found.jobs["finish_s"].tolist() == [5]
    assert found.summary()["ps_shortages"] == 1


def test_a_job_in_the_cloud_exchanges_nothing():
    """Ten mini-batches of 1 s, after 10 MB at 0.5 MB/s."""
    whole = job(minibatches=10, gradient_bytes=MB, chunk_bytes=10 * MB, cloud_upload_s=1)
    found = run(system(1, wan=MB / 2), whole, scheduler="cloud-only")
    assert found.jobs["finish_s"].tolist() == [30]
    assert found.jobs["communication_s"].tolist() == [20]


# --- preemption ----------------------------------------------------------------------------


@pytest.mark.parametrize(("preemption", "ends"), [("pause", [13, 7]), ("finish", [13, 9]),
                                                  ("drop", [15, 7])])
def test_what_becomes_of_a_minibatch(preemption, ends):
    """Three mini-batches of 2 + 2 s; at 6 s, in the second one, somebody comes with 1 s.

    Finished, it ends at 8. Dropped, its 2 s are lost.
    """
    jobs = (job(0, compute_s=2, update_s=2, minibatches=3), job(1, arrival_s=6))
    found = run(system(1), *jobs, mode="exact", preemption=preemption)
    assert found.jobs["finish_s"].tolist() == ends
    assert found.jobs["preemptions"].tolist() == [1, 0]


@pytest.mark.parametrize(("preemption", "end"), [("pause", 4 + 4 + 1), ("finish", 9),
                                                 ("drop", 4 + 4 + 1 + 1.5)])
def test_what_becomes_of_a_flow(preemption, end):
    """Two mini-batches of 1 + 1 + 1 + 1 s. At 1.5 s, in the first push, somebody comes with 1 s."""
    jobs = (job(0, update_s=1, minibatches=2, gradient_bytes=MB), job(1, arrival_s=1.5))
    cloud = system(1, 0, ps=[0, 1])
    found = run(cloud, *jobs, mode="exact", preemption=preemption)
    assert found.jobs["finish_s"].iloc[0] == pytest.approx(end)


def test_what_is_computed_in_vain_is_no_communication():
    """Two mini-batches of 2 + 1 + 1 + 1 s, of which the first is dropped as it has pushed 0.5 s.

    Of 2.5 + 10 s of training 2 + 2 * 3 are computation, 0.5 + 2 * 2 are exchange.
    """
    jobs = (job(0, compute_s=2, update_s=1, minibatches=2, gradient_bytes=MB),
            job(1, arrival_s=2.5))
    found = run(system(1, 0, ps=[0, 1]), *jobs, mode="exact", preemption="drop")
    assert found.training["end_s"].sub(found.training["start_s"])[:2].tolist() == [2.5, 10]
    assert found.jobs["communication_s"].tolist() == [0.5 + 4, 0]


def test_who_has_its_last_minibatch_is_not_displaced():
    jobs = (job(0, compute_s=4), job(1, arrival_s=1, compute_s=1))
    found = run(system(1), *jobs, mode="exact")
    assert found.jobs["finish_s"].tolist() == [4, 5]
    assert found.summary()["preemptions"] == 0


@pytest.mark.parametrize(("name", "alpha"), [
    ("constant", 4 + 15 + 30), ("fabric", 4 + 15 + 30), ("fabric:mode=sync", 5 + 14 + 30),
    *((f"fabric:mode=exact:preemption={preemption}", each + 30)
      for preemption, each in (("pause", 4 + 15), ("finish", 5 + 14), ("drop", 4 + 16)))])
def test_what_schedulers_expect_of_who_was_displaced(name, alpha):
    """Ten mini-batches of 2 s; at 5 s somebody comes with 8 s, and at 9 s somebody with 30 s.

    The second one begins at 5 s, or where mini-batches are finished at 6 s. The third one expects
    4 or 5 s of it, and of the first one 7.5, 7 or, with the third mini-batch lost, 8 mini-batches.
    """
    jobs = (job(0, compute_s=2, minibatches=10), job(1, arrival_s=5, compute_s=8),
            job(2, arrival_s=9, compute_s=30))
    found = netsim.simulate(system(1), jobs, scheduler="a-online-e", transport=name)
    assert found.jobs["preemptions"].tolist() == [1, 0, 0]
    assert found.chunks["alpha_s"].iloc[2] == pytest.approx(alpha)


# --- links and policies --------------------------------------------------------------------


def test_a_link_fails_and_is_repaired():
    """10 MB at 1 MB/s, but not from 3 to 8 s; the schedulers' estimate stays 10 s."""
    events = [{"at": 3, "link": "ingress-0", "capacity": 0},
              {"at": 8, "link": "ingress-0", "capacity": MB}]
    found = run(system(1), job(chunk_bytes=10 * MB, upload_s=10), events=events,
                record=["links"])
    assert found.chunks["ready_s"].tolist() == [15]
    assert found.chunks["alpha_s"].tolist() == [11]
    moved = found.links[found.links["link"] == "ingress-0"]
    assert moved["bytes"].sum() == pytest.approx(10 * MB)
    assert moved["end_s"].max() == 15
    assert found.summary()["simpy_events"] >= found.summary()["decisions"] >= 3
    with pytest.raises(StalledError, match="allocator MaxMin gives no bandwidth to the flows of"):
        run(system(1), job(chunk_bytes=10 * MB, upload_s=10), events=events[:1])


def test_ends_are_noticed_at_the_observation_interval():
    """10 s are noticed at 12 s; then one mini-batch of 1 s."""
    found = run(system(1), job(chunk_bytes=10 * MB, upload_s=10), observe_interval=4)
    assert found.chunks["ready_s"].tolist() == [12]
    assert found.jobs["finish_s"].tolist() == [13]


ALLOCATORS = sorted(set(ALL) - {"lp-order", "reserved"})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_any_allocator(allocator, mode):
    """What is carried is what is uploaded, and pushed and pulled between servers."""
    jobs = [job(k, arrival_s=k, chunks=2, minibatches=3, gradient_bytes=MB, chunk_bytes=5 * MB,
                upload_s=4) for k in range(4)]
    found = run(system(2, 1, 1, ps=[1, 0, 2]), *jobs, mode=mode, allocator=allocator,
                record=["links"])
    carried = found.links.groupby("link", observed=False)["bytes"].sum()
    into = sum(carried[f"ingress-{host}"] for host in range(5))
    out = sum(carried[f"egress-{host}"] for host in range(5))
    uploads = 4 * 2 * 5 * MB
    assert carried["egress-4"] == pytest.approx(uploads)
    assert into == pytest.approx(out)
    assert uploads <= into * (1 + 1e-9)
    assert into <= (uploads + 4 * 2 * 3 * 2 * MB) * (1 + 1e-9)
    assert (found.chunks["delay_ratio"] >= 1 - 1e-9).all()
    assert (found.chunks["rate_ratio"] <= 1 + 1e-9).all()


class Always(Allocator):
    """Gives each flow one rate, whatever there is."""

    def __init__(self, rate):
        self.rate = rate

    def allocate(self, view):
        return Allocation(np.full(view.flows, self.rate))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("rate", "said"), [
    (2 * MB, r"overloads link 'limit-\d of a flow'"), (np.inf, "returned np.float64.inf"),
    (-1.0, "returned np.float64.-1.0.; rates"), (np.nan, "returned np.float64.nan")])
def test_rates_that_cannot_be(mode, rate, said):
    """With fluid mini-batches too, of which none uses as much as it is given."""
    exchanging = job(minibatches=3, gradient_bytes=MB)
    with pytest.raises(AllocationError, match=f"allocator Always at .* {said}"):
        run(system(1, 1, ps=[0, 1], edge_links=9 * MB), exchanging, mode=mode,
            allocator=Always(rate))


@pytest.mark.parametrize(("options", "error", "said"), [
    ({"speed": 1}, UnknownNameError, "option of transport 'fabric' 'speed'; .* mode, preemption$"),
    ({"sharing": 1}, UnknownNameError, "option of transport 'fabric' 'sharing'"),
    ({"mode": "slow"}, UnknownNameError, "unknown mode 'slow'"),
    ({"preemption": "drop"}, InputError, "preemption 'drop' is for mode 'exact'; in mode"),
    ({"mode": "sync", "preemption": "drop"}, InputError, "is for mode 'exact'; in mode 'sync'"),
    ({"mode": "exact", "preemption": "no"}, UnknownNameError, "unknown preemption 'no'"),
    ({"allocator": "ring-contention:count=running"}, InputError,
     "allocator 'ring-contention' needs placed jobs: chunks on an edge-cloud have no servers"),
    ({"scheduler": "srtf", "mode": "exact", "preemption": "drop"}, InputError,
     "scheduler 'srtf' needs a transport of whole jobs: preemption 'drop' is for schedulers of"),
])
def test_what_is_refused(options, error, said):
    with pytest.raises(error, match=said):
        run(system(1), job(), **options)


@pytest.mark.parametrize(("options", "said"), [
    ({"edge_links": [MB]}, "edge_links must have a value for each of the 2 servers, not 1"),
    ({"edge_links": [MB, 0]}, "edge_links of server 1 must be "),
    ({"wan": 0}, "wan must be "),
    ({"topology": "big"}, "topology must be a Topology, not 'big'"),
    ({"topology": netsim.big_switch(3)}, "has 3 hosts; it needs one for each of the 2 servers"),
])
def test_links_that_cannot_be(options, said):
    with pytest.raises(InputError, match=said):
        system(1, 1, **options)


# --- random systems ------------------------------------------------------------------------


def on_links(cloud, rate):
    return EdgeCloud(cloud.workers, ps=cloud.ps, storage=cloud.storage, edge_links=rate, wan=rate)


@settings(max_examples=examples(40))
@given(instances(), st.sampled_from(["a-online", "a-online-e", "cloud-only"]),
       st.sampled_from(["fabric", "fabric:mode=exact:preemption=pause"]),
       st.sampled_from([0, 0.5]))
def test_with_ample_links_it_is_as_with_constant_rates(instance, scheduler, transport, epsilon):
    cloud, jobs = on_links(unlimited(instance[0]), 1e12), instance[1]
    said = netsim.simulate(cloud, jobs, scheduler=scheduler, epsilon=epsilon)
    found = netsim.simulate(cloud, jobs, scheduler=scheduler, epsilon=epsilon, transport=transport)
    for name in ("ready_s", "start_s", "finish_s", "alpha_s", "t_star_s"):
        assert found.chunks[name].to_numpy() == pytest.approx(said.chunks[name].to_numpy(),
                                                              abs=1e-9), name
    assert found.chunks["preemptions"].equals(said.chunks["preemptions"])
    assert found.chunks["worker"].equals(said.chunks["worker"])
    assert found.jobs["communication_s"].to_numpy() == pytest.approx(
        said.jobs["communication_s"].to_numpy(), abs=1e-6)
    assert found.training[["start_s", "end_s"]].to_numpy() == pytest.approx(
        said.training[["start_s", "end_s"]].to_numpy(), abs=1e-9)


def test_long_after_the_beginning_it_is_as_exact():
    """Jobs that come at one instant, and as others end, do not move it, nor what follows."""
    late = 1e6 / 3
    jobs = [job(k, arrival_s=late * (1 + k // 3), chunk_bytes=MB, upload_s=late / 7 * (k + 1),
                compute_s=late / 7) for k in range(9)]
    cloud = system(1, 2, edge_links=1e12)
    said = netsim.simulate(cloud, jobs, scheduler="a-online-e").chunks
    found = run(cloud, *jobs).chunks
    for name in ("ready_s", "start_s", "finish_s"):
        assert found[name].to_numpy() == pytest.approx(said[name].to_numpy(), rel=1e-15), name


@settings(max_examples=examples(40))
@given(instances(), st.sampled_from(["a-online", "cloud-only"]),
       st.sampled_from(["fabric", "fabric:mode=exact", "fabric:mode=exact:preemption=drop",
                        "fabric:mode=exact:preemption=pause", "fabric:mode=sync"]))
def test_what_holds_on_narrow_links(instance, scheduler, transport):
    cloud, jobs = on_links(instance[0], 0.5), instance[1]
    found = netsim.simulate(cloud, jobs, scheduler=scheduler, transport=transport)
    chunks, training = found.chunks, found.training
    assert (found.jobs["jct_s"] >= found.jobs["lower_bound_s"] - 1e-9).all()
    assert (chunks["delay_ratio"].dropna() >= 1 - 1e-9).all()
    assert (chunks["rate_ratio"] <= 1 + 1e-9).all()
    assert (chunks["start_s"] >= chunks["ready_s"] - 1e-9).all()
    assert (training.groupby(["job", "chunk"])[["server", "worker"]].nunique() == 1).all(axis=None)
    for _, rows in training[training["server"] >= 0].groupby(["server", "worker"]):
        spans = rows.sort_values("start_s")[["start_s", "end_s"]].to_numpy()
        assert (spans[1:, 0] >= spans[:-1, 1] - 1e-9).all()  # one chunk at a time
    again = training.groupby(["job", "chunk"], sort=False).size() - 1
    assert np.array_equal(again.to_numpy(), chunks["preemptions"].to_numpy())
    check_ps(found, cloud)


@pytest.mark.parametrize("record", [["links"], ["jobs", "decisions"], ("links", "decisions")])
def test_links_are_not_recorded_where_rates_are_constant(record):
    """Nothing is sent over a link there; the tables of the jobs are as they always are."""
    system = netsim.EdgeCloud([["gpu"]])
    jobs = [netsim.EdgeJob(id=0, worker_type="gpu", compute_s=1)]
    named = ", ".join(f"record.{name}" for name in ("links", "decisions") if name in record)
    with pytest.raises(InputError, match=rf"^{named}: for transport 'fabric'; with 'constant' "
                                         "delays and rates are constant"):
        netsim.simulate(system, jobs, record=record)
    for other in ([], ["jobs"], ["jobs", "coflows"]):
        assert "links" not in netsim.simulate(system, jobs, record=other).recorded
    assert netsim.simulate(system, jobs, record=record, transport="fabric").chunks is not None
