"""The LP bound: what it is of, by hand, and what it refuses."""

import sys

import numpy as np
import pytest

import netsim
from netsim.edge import EdgeCloud, EdgeJob
from netsim.edge.bound import Place, Work, _columns, least_cost, lp_bound
from netsim.edge.setting import CLOUD
from netsim.errors import InputError, MissingExtraError, NetsimError
from tests.examples import examples

pytest.importorskip("scipy")


def job(number=0, **keys):
    return EdgeJob(id=number, **{"compute_s": 4.0, "upload_s": 1.0, "cloud_upload_s": 50.0} | keys)


def bound(workers, jobs, **keys):
    cloud = keys.pop("cloud", False)
    return lp_bound(EdgeCloud(workers, cloud=cloud), jobs, **{"slot": 1} | keys)


def test_one_chunk_alone_trains_when_its_data_are_there():
    found = bound([["gpu"]], [job(worker_type="gpu", arrival_s=3)])
    # In the slots from 1 to 4 seconds after arrival: 2.5 s on average.
    assert found.lp_s == pytest.approx(2.5)
    assert found.half_processing_s == 2
    assert found.jct_s == pytest.approx(4.5)
    assert found.ratio_paper(10) == pytest.approx(4)
    assert found.ratio(9) == pytest.approx(2)


def test_the_exchange_of_gradients_does_not_count():
    exchanging = job(gradient_bytes=100, bandwidth=1)
    assert bound([[0]], [exchanging]) == bound([[0]], [job()])


def test_data_that_arrive_inside_a_slot_leave_the_rest_of_it():
    # Half of the slot from 1.5, then from 2 to 4.5: 0.5 * 1.5 + 2 + 3 + 4 + 0.5 * 5 over 4.
    assert bound([[0]], [job(upload_s=1.5)]).lp_s == pytest.approx((0.75 + 9 + 2.5) / 4)


def test_no_more_workers_than_chunks():
    assert bound([[0] * 8], [job(chunks=2)]).lp_s == pytest.approx(2.5)
    assert bound([[0]], [job(chunks=2)]).lp_s == pytest.approx(4.5)


def test_the_cloud_has_room_for_all():
    jobs = [job(k, chunks=5, cloud_upload_s=2) for k in range(3)]
    assert bound([], jobs, cloud=True).lp_s == pytest.approx(3 * 3.5)


def test_types_do_not_meet():
    jobs = [job(0, worker_type="a"), job(1, worker_type="b"), job(2, worker_type="b")]
    apart = [bound([["a", "b"]], jobs[:1]).lp_s, bound([["a", "b"]], jobs[1:]).lp_s]
    assert bound([["a", "b"]], jobs).lp_s == pytest.approx(sum(apart))


def test_a_shorter_slot_gives_a_tighter_bound():
    jobs = [job(k, chunks=k + 1, upload_s=0.3 + k, cloud_upload_s=7.7) for k in range(4)]
    found = [bound([[0, 0], [0]], jobs, cloud=True, slot=slot).lp_s for slot in (4, 2, 1, 0.5)]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_what_is_left_out_changes_nothing():
    """The edge where the cloud has its data, and slots beyond those that can be needed."""
    rng = np.random.default_rng(3)
    works = [Work(float(arrival), int(chunks), float(length), (
        Place(0, 2, arrival + 1.25), Place(1, 1, arrival + 2.0), Place(CLOUD, 0, arrival + 3.5)))
        for arrival, chunks, length in zip(rng.uniform(0, 6, 6), rng.integers(1, 5, 6),
                                           rng.uniform(1, 5, 6), strict=True)]
    found = least_cost(works)
    edge = [Work(each.arrival, each.chunks, each.chunk_time, each.places[:2]) for each in works]
    assert least_cost(edge) == pytest.approx(least_cost(edge, 90), rel=1e-8)
    # A server with more workers than there are chunks, there when the cloud is, is as the cloud.
    far = [Work(each.arrival, each.chunks, each.chunk_time,
                (*each.places[:2], Place(2, 99, each.cloud))) for each in works]
    assert least_cost(far, 60) == pytest.approx(found, rel=1e-8)
    assert len(_columns(works, 0).cost) < len(_columns(far, 60).cost)


def test_it_is_no_more_than_what_one_worker_does():
    """Sorted by length, one after the other: with single chunks a schedule that exists."""
    rng = np.random.default_rng(5)
    seconds = np.sort(rng.uniform(1, 9, 8))
    jobs = [job(k, compute_s=float(each)) for k, each in enumerate(seconds)]
    total = float(np.sum(1 + np.cumsum(seconds)))
    found = bound([[0]], jobs, slot=0.25)
    assert found.jct_s <= total
    assert found.jct_s == pytest.approx(total, rel=0.05)


def test_errors(monkeypatch):
    with pytest.raises(InputError, match="job 0 needs workers of type 1; there is no cloud"):
        bound([[0]], [job(worker_type=1)])
    with pytest.raises(InputError, match="cannot be trained within 3 slots; give a longer hor"):
        bound([[0]], [job()], horizon=3)
    with pytest.raises(InputError, match=r"would have .* variables, but at most 10,000,000"):
        bound([[0]], [job()], slot=1e-18)  # more than any memory holds
    with pytest.raises(InputError, match="slot must be greater than 0, not 0"):
        bound([[0]], [job()], slot=0)
    jobs = [job(k, chunks=1 + k % 7, upload_s=[k % 3, 1, k % 5, 2], compute_s=20 + k % 11)
            for k in range(15)]
    with pytest.raises(NetsimError, match="not solved within the time limit; allow more"):
        bound([[0]] * 4, jobs, time_limit="1ms")
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setattr("netsim.edge.bound.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"coflow-netsim\[ilp\]"):
        bound([[0]], [job()])


@pytest.mark.parametrize("seed", range(examples(25)))
@pytest.mark.parametrize("scheduler", ["a-online", "srtf", "tiresias-l", "batch:mode=periodic"])
def test_no_scheduler_goes_below_the_bound(scheduler, seed):
    """JCT >= LP + half the processing: with and without a cloud, whole slots and parts of them."""
    rng = np.random.default_rng(seed)
    servers = int(rng.integers(1, 5))
    system = EdgeCloud([["a", *("ab"[each] for each in rng.integers(0, 2, rng.integers(0, 4)))]
                        for _ in range(servers)], cloud=bool(seed % 2) or scheduler[:5] == "batch")
    kinds = sorted(system.types)
    jobs = [EdgeJob(id=k, arrival_s=float(rng.integers(0, 12)) / 2, chunks=int(rng.integers(1, 7)),
                    compute_s=float(rng.uniform(0.3, 6)), gradient_bytes=float(rng.uniform(0, 1)),
                    bandwidth=1, worker_type=kinds[int(rng.integers(len(kinds)))],
                    upload_s=rng.uniform(0.2, 4, servers).tolist(),
                    cloud_upload_s=float(rng.uniform(2, 15)), gang=int(rng.integers(1, 5)))
            for k in range(int(rng.integers(1, 9)))]
    jct = netsim.simulate(system, jobs, scheduler=scheduler).jobs["jct_s"]
    for slot in (0.5, 1.7):
        found = lp_bound(system, jobs, slot=slot)
        assert found.lp_s <= found.jct_s <= jct.sum() * (1 + 1e-9)


def test_the_bound_can_be_reached():
    """One job with as many workers as chunks: it trains as soon as its data are there."""
    alone = [job(chunks=3, upload_s=2.0)]
    total = netsim.simulate(EdgeCloud([[0] * 3], cloud=False), alone).jobs["jct_s"].sum()
    assert total == 6
    assert bound([[0] * 3], alone, slot=0.01).jct_s == pytest.approx(total, rel=0.01)
