"""Edge-clouds and jobs drawn at random: within their ranges, each from streams of its own."""

from collections import Counter

import numpy as np
import pytest

from netsim.edge import EdgeCloud
from netsim.edge.drawn import draw_edge_cloud, draw_edge_jobs
from netsim.errors import InputError

HOUR = 3600


def facts(job):
    return {name: getattr(job, name) for name in (
        "arrival_s", "worker_type", "chunks", "minibatches", "epochs", "compute_s", "update_s",
        "gradient_bytes", "bandwidth", "upload_s", "cloud_upload_s")}


def of(jobs, name):
    return np.array([getattr(job, name) for job in jobs])


def spread(values, least, most):
    """Say whether values fill a range."""
    room = (most - least) / 20
    return least <= values.min() < least + room and most - room < values.max() <= most


def test_the_system_of_section_5():
    system = draw_edge_cloud(2000, seed=1)
    sizes = Counter(map(len, system.workers))
    assert set(sizes) == {2, 8}
    assert sizes[2] / 2000 == pytest.approx(321 / 552, abs=0.03)
    assert set(system.types) == set(range(10))
    share = np.bincount(system.type_of) / system.total
    assert share == pytest.approx(0.1, abs=0.02)
    assert system.cloud
    assert np.isinf(system.storage).all()


def test_the_jobs_of_section_5():
    jobs = draw_edge_jobs(2000, servers=3, seed=1).jobs
    assert Counter(of(jobs, "chunks").tolist()).keys() == {27, 60, 115}
    assert set(of(jobs, "minibatches")) == {58}
    assert set(of(jobs, "epochs")) == set(range(20, 61))
    assert spread(of(jobs, "compute_s"), 0.001 * HOUR, 0.05 * HOUR)
    assert spread(of(jobs, "update_s"), 0.01, 0.1)
    assert spread(of(jobs, "gradient_bytes"), 30e6, 575e6)
    assert spread(of(jobs, "bandwidth"), 12.5e6, 640e6)
    assert set(of(jobs, "upload_s").ravel()) == {HOUR * slots for slots in (1, 2, 3, 4)}
    assert set(of(jobs, "cloud_upload_s")) == {HOUR * slots for slots in range(10, 16)}
    assert [job.workers for job in jobs] == [job.chunks for job in jobs]


def test_arrivals_have_two_peaks():
    arrival = of(draw_edge_jobs(4000, servers=0, seed=2).jobs, "arrival_s") / HOUR
    assert (arrival == np.floor(arrival)).all()
    assert arrival.min() >= 0
    assert arrival.max() < 1800
    near = [np.mean(np.abs(arrival / 1800 - peak) < 0.1) for peak in (0.25, 0.65)]
    # 95 % of a peak's 30 %, and a fifth of the 40 % that are anywhere.
    assert near == pytest.approx([0.3 * 0.95 + 0.08] * 2, abs=0.03)
    flat = of(draw_edge_jobs(4000, servers=0, in_peaks=0, peaks=()).jobs, "arrival_s")
    assert np.histogram(flat, 4)[0] / 4000 == pytest.approx(0.25, abs=0.03)


def test_one_more_changes_no_other():
    few, more = (draw_edge_cloud(count, seed=3).workers for count in (5, 6))
    assert more[:5] == few
    few, more = (sorted(draw_edge_jobs(count, servers=4, seed=3), key=lambda job: job.id)
                 for count in (5, 6))
    assert [facts(job) for job in more[:5]] == [facts(job) for job in few]
    wide = sorted(draw_edge_jobs(5, servers=7, seed=3), key=lambda job: job.id)
    assert [job.upload_s[:4] for job in wide] == [job.upload_s for job in few]
    changed = sorted(draw_edge_jobs(5, servers=4, seed=3, epochs=(1, 1), types=2, chunk="2GB"),
                     key=lambda job: job.id)
    kept = ("arrival_s", "chunks", "compute_s", "bandwidth", "upload_s", "cloud_upload_s")
    assert [[facts(job)[name] for name in kept] for job in changed] == [
        [facts(job)[name] for name in kept] for job in few]


def test_the_seed_draws_all():
    first, again, other = (draw_edge_jobs(3, servers=2, seed=seed) for seed in (1, 1, 2))
    assert list(map(facts, first)) == list(map(facts, again)) != list(map(facts, other))
    assert draw_edge_cloud(9, seed=1).workers != draw_edge_cloud(9, seed=2).workers


def test_jobs_are_of_types_that_are_given():
    kinds = {job.worker_type for job in draw_edge_jobs(40, types=["gpu", "tpu"], gang=3)}
    assert kinds == {"gpu", "tpu"}
    draw_edge_jobs(4, servers=1, types=["gpu"]).check_on(EdgeCloud([["gpu"]], cloud=False))


@pytest.mark.parametrize(("options", "message"), [
    ({"servers": -1}, "servers must be a whole number"), ({"types": 0}, "types must be"),
    ({"sizes": {}}, "sizes must be a table"), ({"sizes": {"two": 1}}, "sizes: workers .* 'two'"),
    ({"sizes": {"2": -1}}, "sizes: the probability of 2 workers .* not -1"),
    ({"sizes": {"2": 10**400}}, "sizes: the probability of 2 workers must be a number from 0 to"),
    ({"sizes": {"2": 0}}, "sizes: at least one prob"), ({"seed": -1}, "seed must be"),
    ({"servers": 99, "sizes": {"1000000": 1}}, "has more than 10,000,000 workers"),
    ({"servers": 99, "ps": 1_000_000}, "has more than 10,000,000 parameter servers"),
    ({"cloud": 2}, "cloud must be true or false, not 2"),
    ({"servers": 0, "cloud": False}, "has neither a worker nor a cloud"),
    ({"storage": "-1GB"}, "storage of server 0 must be at least 0"),
])
def test_bad_systems(options, message):
    with pytest.raises(InputError, match=message):
        draw_edge_cloud(**options)


@pytest.mark.parametrize(("options", "message"), [
    ({"jobs": 0}, "jobs must be a whole number"), ({"types": []}, "types must not be"),
    ({"chunks": []}, "chunks must not be"), ({"chunks": [0]}, "chunks: each must be"),
    ({"chunks": 27}, "chunks must be a list"), ({"minibatches": 0}, "minibatches must be"),
    ({"epochs": [0, 1]}, "epochs must be"), ({"epochs": [2, 1]}, "epochs: the least, 2, is more"),
    ({"compute": "1h"}, "compute must be the least and the most, not '1h'"),
    ({"bandwidth": [0, 0]}, "bandwidth must be greater than 0"),
    ({"upload": ["90min", "2h"]}, "upload must be a multiple of the slot, 3600 s, not '90min'"),
    ({"span": "30min"}, "span must be a multiple"), ({"slot": 0}, "slot must be greater"),
    ({"in_peaks": 1.5}, "in_peaks must be a number from 0 to 1, not 1.5"),
    ({"peaks": [2.0]}, "peaks: each must be a number from 0 to 1"),
    ({"peaks": []}, "in_peaks is 0.6, but there are no peaks"),
    ({"chunk": "-1GB"}, "chunk must be at least 0"), ({"gang": 0}, "gang must be"),
])
def test_bad_jobs(options, message):
    with pytest.raises(InputError, match=message):
        draw_edge_jobs(**{"jobs": 1, "servers": 1} | options)


def test_numbers_of_parameter_servers_are_drawn():
    """Three quarters have 1, the others 4; workers stay the same, one more changes no other."""
    system = draw_edge_cloud(2000, ps={"1": 3, 4: 1}, seed=4)
    counts = [len(each) for each in system.ps]
    assert set(counts) == {1, 4}
    assert counts.count(1) / 2000 == pytest.approx(3 / 4, abs=0.03)
    assert system.workers == draw_edge_cloud(2000, seed=4).workers
    assert draw_edge_cloud(2001, ps={"1": 3, 4: 1}, seed=4).ps[:2000] == system.ps
    # Drawn apart from the workers: equally often on servers of 2 and of 8.
    large = np.array([len(each) == 8 for each in system.workers])
    assert np.mean(np.array(counts)[large] == 1) == pytest.approx(3 / 4, abs=0.05)
    assert [len(each) for each in draw_edge_cloud(3, ps=[2, 0, 5], seed=4).ps] == [2, 0, 5]


@pytest.mark.parametrize(("ps", "message"), [
    ({}, "ps must be a table of numbers of PSs to probabilities"),
    ({"few": 1}, "ps: PSs must be a whole number"),
    ({"1": -1}, "ps: the probability of 1 PSs must be a number from 0 to 1e\\+15, not -1"),
    ({"1": 0}, "ps: at least one probability must be greater than 0"),
    ([1, 2], "ps must have a value for each of the 3 servers, not 2")])
def test_numbers_of_parameter_servers_that_cannot_be(ps, message):
    with pytest.raises(InputError, match=message):
        draw_edge_cloud(3, ps=ps)
