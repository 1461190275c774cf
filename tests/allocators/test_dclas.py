"""Aalo's queues: when moves and rates are decided, and options that cannot be."""

import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.allocators.dclas import DCLAS
from netsim.errors import InputError, UnknownNameError
from netsim.testing import make_view

NET = netsim.big_switch(3, 1.0)


@pytest.mark.parametrize(("decisions", "end"), [("flow", 4), ("coflow", 6)])
def test_when_a_flow_ends(decisions, end):
    """Flows of 1 and 3 leave host 0 at 1/2 each until 2; then 2 are left, at 1 or still at 1/2."""
    jobs = Workload([JobSpec(0, stages=[Stage("only", [(0, 1, 1.0), (0, 2, 3.0)])],
                             hosts=range(3))])
    policy = {"name": "aalo", "decisions": decisions}
    assert netsim.simulate(NET, jobs, allocator=policy).jobs["finish_s"].tolist() == [end]


@pytest.mark.parametrize(("one", "queues"), [(False, [0, 2, 2]), (True, [0, 1, 2])])
def test_one_queue_per_move(one, queues):
    """Thresholds at 1 and 2 bytes: a coflow that has sent 4 of 5 has passed both.

    Moves are seen every 1/2 s: the fabric asks once 1 byte is sent. After the first of two
    moves, at 1, the next is due at 3/2.
    """
    policy = DCLAS(thresholds=[1, 2], observe=0.5, one_queue_per_move=one)
    found, due, limits = [], [], []
    for sent, now in ((0.0, 0.5), (0.8, 1.0), (0.8, 1.5)):
        view = make_view(NET, [[(0, 1, 5.0)]], sent=[sent], now=now)
        allocation = policy.allocate(view)
        due.append(allocation.revisit_at)
        limits += allocation.service.limit.tolist()
        found += policy.queue_of.values()
    assert found == queues
    assert limits == [1.0, float("inf"), float("inf")]
    assert due == [float("inf"), 1.5 if one else float("inf"), float("inf")]


@pytest.mark.parametrize(("options", "message"), [
    ({"thresholds": ["1GB", "1MB"]}, r"thresholds must increase, not \['1GB', '1MB'\]"),
    ({"thresholds": ["1MB", "1MB"]}, "thresholds must increase"),
    ({"thresholds": [0]}, "thresholds must be greater than 0, not 0"),
    ({"first_threshold": 0}, "first_threshold must be greater than 0"),
    ({"first_threshold": "10ms"}, "first_threshold '10ms' has the unknown unit 'ms'"),
    ({"queues": 0}, "queues must be a whole number of at least 1, not 0"),
    ({"queues": 2.5}, "queues must be a whole number of at least 1, not 2.5"),
    ({"factor": 1}, "factor must be a finite number greater than 1, not 1"),
    ({"queues": 3, "weights": [2, 1]}, "each of the 3 queues, not 2 numbers"),
    ({"thresholds": ["1MB"], "weights": [3, 2, 1]}, "each of the 2 queues, not 3 n"),
    ({"queues": 2, "weights": [1, 0]}, r"weights must be positive .*, not \[1, 0\]"),
    ({"queues": 2, "weights": [1, -1]}, "weights must be positive"),
    ({"observe": "coflows"}, "observe 'coflows' is not a number with a unit"),
    ({"observe": -1}, "observe must be at least 0, not -1"),
    ({"one_queue_per_move": 1}, "one_queue_per_move must be true or false, not 1"),
])
def test_refused(options, message):
    with pytest.raises(InputError, match=message):
        netsim.make_allocator({"name": "aalo"} | options)


@pytest.mark.parametrize(("option", "choices"), [
    ("weights", "linear, strict"), ("fifo", "entry, id"), ("sharing", "equal, maxmin"),
    ("decisions", "coflow, flow")])
def test_unknown_choices(option, choices):
    with pytest.raises(UnknownNameError, match=f"unknown {option} 'x'; choose from: {choices}"):
        netsim.make_allocator({"name": "aalo", option: "x"})


@pytest.mark.parametrize("decisions", ["flow", "coflow"])
def test_thresholds_far_below_the_size_are_crossed(decisions):
    """Two coflows of 1e12 bytes, thresholds from 1,000 bytes on: a rounding of the size is 1e-4.

    Both leave host 0 at 1.25e9 bytes/s, so that the second of them ends after 1,600 s.
    """
    jobs = [JobSpec(k, hosts=range(2), stages=[Stage("only", [(0, 1, 1e12)])]) for k in range(2)]
    for first in (1000.3, 999.7, 81325.8):
        policy = {"name": "aalo", "first_threshold": first, "factor": 1.7, "decisions": decisions}
        result = netsim.simulate(netsim.big_switch(2, 1.25e9), jobs, allocator=policy)
        assert result.jobs["finish_s"].max() == pytest.approx(1600.0)


MB = 1e6


def ends(network, *jobs, **options):
    """When jobs of one coflow each end; a coflow is a list of (src, dst, MB)."""
    specs = [JobSpec(k, hosts=range(network.hosts), stages=[
        Stage("only", [(src, dst, mb * MB) for src, dst, mb in flows])])
        for k, flows in enumerate(jobs)]
    result = netsim.simulate(network, Workload(specs), allocator={"name": "aalo"} | options)
    return result.jobs["finish_s"].tolist()


@pytest.mark.parametrize("interval", [0, 1])
@pytest.mark.parametrize("decisions", ["flow", "coflow"])
def test_a_crossing_at_the_end_of_a_flow(decisions, interval):
    """A coflow reaches its threshold as one of its flows ends, and then stands still.

    Egress 2 carries 0.5 MB/s. Job 0 is first in queue 1 and has all of it. Job 1 sends 10 MB to
    host 1 by 10 s, which ends queue 1, while its 5 MB to host 3 wait. In queue 2 from then on it
    has a third of egress 2, and job 0 two thirds of it: 3 MB at 1/3 MB/s take until 19 s, when
    job 1 has 5 - 9/6 MB left, for 7 s at 0.5 MB/s.
    """
    network = netsim.big_switch(4, [MB, MB, MB / 2, MB])
    assert ends(network, [(2, 3, 8)], [(0, 1, 10), (2, 3, 5)], queues=2, decisions=decisions,
                observe=interval) == pytest.approx([19, 26])


def test_a_crossing_at_the_end_of_a_flow_that_is_noticed_late():
    """As above, with a fabric that notices events every 3 s: job 1 moves at 12 s.

    Of its 8 MB job 0 has 2 left then, for 6 s. Job 1 has 5 - 6/6 MB left at 18 s, which take 8 s
    at 0.5 MB/s.
    """
    network = netsim.big_switch(4, [MB, MB, MB / 2, MB])
    jobs = Workload([JobSpec(k, hosts=range(4), stages=[Stage("only", flows)]) for k, flows in
                     enumerate(([(2, 3, 8 * MB)], [(0, 1, 10 * MB), (2, 3, 5 * MB)]))])
    result = netsim.simulate(network, jobs, allocator={"name": "aalo", "queues": 2},
                             observe_interval=3)
    assert result.jobs["finish_s"].tolist() == pytest.approx([18, 26])


@pytest.mark.parametrize("observe", [0, 1, 0.25, "coflow"])
@pytest.mark.parametrize("sharing", ["maxmin", "equal"])
def test_nothing_is_decided_where_no_queue_is_left(observe, sharing):
    """5 MB never pass a threshold of 7 MB: rates stand until the coflow ends.

    Both flows go to host 2, at 0.5 MB/s each. That of 1 MB ends at 2 s; the other has its half
    of the link until it ends at 8 s, as no coflow event comes before.
    """
    assert ends(netsim.big_switch(4, MB), [(1, 2, 4), (0, 2, 1)], queues=2, observe=observe,
                first_threshold=7 * MB, decisions="coflow", sharing=sharing) == [8]


@pytest.mark.parametrize(("observe", "end"), [(0, 7), (1, 7), (4, 8), ("coflow", 8)])
def test_a_crossing_waits_for_slower_flows(observe, end):
    """A threshold of 4 MB. Both flows go to host 2 at 0.5 MB/s; that of 1 MB ends at 2 s.

    From then on the coflow sends 0.5 MB/s, and passes 4 MB at 6 s, not at 4. The 1 MB left takes
    1 s more at the whole link. Where moves are seen every 4 s, it has ended by the time.
    """
    assert ends(netsim.big_switch(4, MB), [(1, 2, 4), (0, 2, 1)], queues=2, observe=observe,
                first_threshold=4 * MB, decisions="coflow") == pytest.approx([end])
