"""AdaDUAL: its threshold against brute force over start times, and runs by hand."""

from fractions import Fraction as F
from itertools import product

import pytest

import netsim
from netsim.allocators.adadual import begins_at_once
from netsim.errors import InputError, UnknownNameError
from netsim.testing import make_view
from tests.offenders import check_each

NET = netsim.big_switch(4, 100.0)


# --- the threshold ------------------------------------------------------------------------------


def ends(links, sizes, starts, f):
    """When tasks end that send at 1/f(n), n the most on one of their links, from event to event.

    Exact: nothing of the algebra of `begins_at_once` is used.
    """
    left, end, now = list(sizes), [None] * len(sizes), F(0)
    while None in end:
        sending = [k for k, at in enumerate(starts) if end[k] is None and at <= now]
        rate = {k: 1 / f(max(sum(link in links[other] for other in sending) for link in links[k]))
                for k in sending}
        steps = [left[k] / rate[k] for k in sending] + [at - now for at in starts if at > now]
        step = min(steps)
        for k in sending:
            left[k] -= step * rate[k]
            if left[k] == 0:
                end[k] = now + step
        now += step
    return end


def linear(alpha):
    return lambda n: n + alpha * (n - 1)


#: f(alpha, n) for alpha = 0 (equal shares), eta/b of the paper, and more; and sublinear ones.
DEGRADATIONS = [linear(F(0)), linear(F(3, 10)), linear(F(2)), *(
    lambda n, two=two: 1 + (two - 1) * (n - 1) for two in (F(6, 5), F(3, 2), F(7, 4)))]


@pytest.mark.parametrize("f", DEGRADATIONS)
def test_no_start_is_better_than_the_better_of_at_once_and_last(f):
    """L = 1 is left of the old one; the new one may start at any of 61 instants until it ends."""
    starts = [F(k, 60) for k in range(61)]

    def is_no_better(size):
        totals = [sum(ends([{0}, {0}], [F(1), size], [F(0), start], f)) for start in starts]
        assert min(totals) == min(totals[0], totals[-1])
        assert begins_at_once(float(size), [1.0], float(f(2))) == (totals[0] < totals[-1])

    check_each(is_no_better,
               [F(1, 10), F(1, 3), F(4, 10), F(1, 2), F(9, 10), F(1), F(3)])


def test_the_threshold_of_the_paper():
    """M/L < b/(2 (b + eta)): with b = 1, eta = 3/10, 10/26; and a half without a cost."""
    b, eta = 1.0, 0.3
    for threshold, slowdown in ((b / (2 * (b + eta)), 2 + eta / b), (0.5, 2.0)):
        assert begins_at_once(threshold * 0.999, [1.0], slowdown)
        assert not begins_at_once(threshold, [1.0], slowdown)  # equal sums: it waits
        assert not begins_at_once(threshold * 1.001, [1.0], slowdown)
    assert begins_at_once(5.0, [], 2.0)


@pytest.mark.parametrize("f", DEGRADATIONS)
def test_one_other_on_each_of_several_links(f):
    """All that it would meet: now against once all of them have ended, by the same sums."""
    grid = [F(1, 4), F(1), F(3, 2), F(3)]
    for size, *left in product([F(1, 5), F(1, 2), F(2)], grid, grid):
        links, sizes = [{0}, {1}, {0, 1}], [*left, size]
        now, later = (sum(ends(links, sizes, [F(0), F(0), start], f)) for start in (0, max(left)))
        assert begins_at_once(float(size), list(map(float, left)), float(f(2))) == (now < later)


# --- runs ---------------------------------------------------------------------------------------


def job(number, arrival_s, seconds, hosts=(0, 1), iterations=1, compute_s=0.0):
    """A job that sends for some seconds alone, from its first host to its second."""
    return netsim.JobSpec(number, arrival_s=arrival_s, iterations=iterations, hosts=hosts, ranks=2,
                          stages=[netsim.Stage("send", [(0, 1, 100.0 * seconds)],
                                               compute_s=compute_s)])


def finishes(jobs, net=NET, **options):
    found = netsim.simulate(net, jobs, allocator={"name": "adadual", **options})
    return found.jobs["finish_s"].tolist()


@pytest.mark.parametrize(("seconds", "beside", "expected"), [
    (3, "adaptive", [10 + 1.2 * 3, 1 + 2.2 * 3]),  # 3/9 < 1/(2 1.2): at once, at f = 2.2
    (4, "adaptive", [10, 14]), (3, "never", [10, 13]), (4, "always", [10 + 1.2 * 4, 1 + 2.2 * 4])])
def test_two_on_one_link(seconds, beside, expected):
    """Job 0 sends from 0 on, and alone until 10; job 1 comes at 1, when 9 s of job 0 are left."""
    found = finishes([job(0, 0, 10), job(1, 1, seconds)], alpha=0.2, beside=beside)
    assert found == pytest.approx(expected)


def test_it_is_the_better_of_the_two_in_a_run_as_well():
    for seconds in (1, 2, 3, 4, 5, 8, 12):
        jobs = [job(0, 0, 10), job(1, 1, seconds)]
        sums = {beside: sum(finishes(jobs, alpha=0.2, beside=beside))
                for beside in ("adaptive", "always", "never")}
        assert sums["adaptive"] == pytest.approx(min(sums["always"], sums["never"]))


def test_never_a_third():
    """Jobs 0 and 1 send from 0 and 1 on, job 1 until 1 + 2 2 = 5; job 2 is small and waits for it.

    When job 1 ends, job 0 has 10 - 1 - 2 = 7 s left, and job 2 of 1 s begins beside it: until 7.
    Job 0 ends 4 - 2 + 2 - 1 = 3 s late.
    """
    jobs = [job(0, 0, 10), job(1, 1, 2), job(2, 2, 1)]
    assert finishes(jobs) == pytest.approx([13, 5, 7])
    assert finishes(jobs, beside="always") == pytest.approx([13, 5, 7])


def test_those_that_wait_go_by_remaining_service():
    """Both wait for job 0 until 10. Job 1 is first there, but job 2 has less service left.

    Alone, job 1 takes 9 s + 9 s, and job 2 8 s + 8 s, on two GPUs each. When job 2 has sent once,
    it is ready again, with 8 s left, and goes on.
    """
    jobs = [job(0, 0, 10), job(1, 1, 9, iterations=2), job(2, 2, 8, iterations=2)]
    assert finishes(jobs) == pytest.approx([10, 44, 26])


def test_computation_is_service():
    """Both wait at 6. Job 1 has less to send, 3 + 3 s, not 5 + 5, but computes for 6 s in between.

    Job 2 sends from 14 to 24, job 1 from 24 to 27 and from 33 to 36.
    """
    jobs = [job(0, 0, 14), job(1, 0, 3, iterations=2, compute_s=6), job(2, 2, 5, iterations=2)]
    assert finishes(jobs, beside="never") == pytest.approx([14, 36, 24])


def test_the_fullest_of_its_servers_counts():
    """Job 3 from host 0 to 3 meets job 0 at host 0 and jobs 1 and 2 at host 3: it waits.

    Job 1 receives at host 1, where job 0 sends; a server's jobs contend whatever their direction.
    With one at each of its ends, of which 9 s are left, 3 M (f - 1) < 9 for M = 2, not for M = 3.
    """
    others = [job(0, 0, 10, (0, 1)), job(1, 0, 10, (2, 3))]
    view = make_view(NET, [[(0, 1, 1000.0)], [(1, 3, 1000.0)], [(2, 3, 400.0)], [(0, 3, 300.0)]],
                     sent=[0.1, 0.1, 0.1, 0], information="job-clairvoyant")
    assert netsim.make_allocator("adadual").allocate(view).rates.tolist() == [50, 50, 50, 0]
    for seconds, expected in ((2, [12, 12, 5]), (3, [10, 10, 13])):
        found = finishes([*others, job(2, 1, seconds, (0, 3))])
        assert found == pytest.approx(expected)


def test_coflows_of_one_job_do_not_contend():
    view = make_view(NET, [[(0, 1, 900.0)], [(0, 2, 800.0)]], jobs=[0, 0], sent=[0.5, 0],
                     information="job-clairvoyant")
    rates = netsim.make_allocator("adadual:alpha=1").allocate(view).rates
    assert rates.tolist() == [50, 50]  # one contender, whose flows overload the port twofold


def test_a_failed_link_neither_sends_nor_counts():
    view = make_view(NET, [[(0, 1, 900.0)], [(0, 2, 800.0)]], sent=[0.5, 0],
                     capacity={"ingress-1": 0}, information="job-clairvoyant")
    assert netsim.make_allocator("adadual").allocate(view).rates.tolist() == [0, 100]


def test_any_degradation():
    """With f(2) = 6/5, contention costs so little that every second one begins at once."""
    table = {"name": "table", "values": [1, 1.2, 3.5]}
    found = finishes([job(0, 0, 10), job(1, 0, 9)], degradation=table)
    assert found == pytest.approx([19, 18])  # the port is overloaded, and shared


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"beside": "maybe"}, UnknownNameError, "choose from: adaptive, always, never"),
    ({"alpha": -1}, InputError, "alpha must be a finite number of at least 0, not -1"),
    ({"degradation": "cubic"}, UnknownNameError, "unknown degradation 'cubic'"),
    ({"degradation": lambda k: 2 * k}, InputError, "must be 1 for one contender")])
def test_refused(options, error, message):
    with pytest.raises(error, match=message):
        netsim.make_allocator({"name": "adadual", **options})


# --- Ada-SRSF on a cluster ----------------------------------------------------------------------


def ring(number, ranks, seconds, iterations, compute_s=1.0, **more):
    """A ring that sends for some seconds alone between servers."""
    return netsim.JobSpec(number, pattern="ring-all-reduce", ranks=ranks, compute_s=compute_s,
                          nbytes=100.0 * seconds * ranks / (2 * max(ranks - 1, 1)),
                          iterations=iterations, **more)


def on_cluster(jobs, gpus, allocator="adadual", **more):
    cluster = netsim.Cluster(gpus=gpus, nic=100.0, intra=1e9)
    return netsim.simulate(cluster, jobs, scheduler="ada-srsf", execution="fabric",
                           allocator=allocator, **more).jobs


def test_jobs_start_by_remaining_service_and_keep_their_gpus():
    """Job 0 has both GPUs until 10, whatever comes. Then job 2 (1 x 9) goes before 1 (2 x 5)."""
    jobs = [ring(0, 2, 0, 10, estimate_s=10), ring(1, 2, 0, 5, arrival_s=1, estimate_s=5),
            ring(2, 1, 0, 9, arrival_s=2, estimate_s=9)]
    found = on_cluster(jobs, [2])
    assert found["start_s"].tolist() == [0, 19, 10]


def test_two_rings_take_turns():
    """Both compute for 1 s and send for 2 s over the same servers: the second waits for the first.

    From then on one computes while the other sends, and neither waits for more than 1 s: of an
    iteration of 3 s, each waits from the end of its computation until 2 s after the other's.
    """
    jobs = [ring(k, 2, 2, 5) for k in range(2)]
    never = on_cluster(jobs, [2, 2], "adadual:beside=never", placement={
        "name": "random", "seed": 1})
    assert set(never["servers"]) == {2}
    assert never["finish_s"].tolist() == pytest.approx([1 + 4 * 4 + 2, 1 + 4 * 5])


def test_the_service_of_a_ring_counts_its_gpus():
    """A ring of 4 GPUs on 2 servers is of 4 GPUs for the allocator, though it has two flows."""
    seen = []

    class Watching(netsim.Allocator):
        information = "job-clairvoyant"

        def allocate(self, view):
            seen.append(view.job_service.tolist())
            return netsim.Allocation(view.maxmin())

    on_cluster([ring(0, 4, 2, 3)], [2, 2], Watching())
    assert seen == [pytest.approx([4 * (3 * later + 2)]) for later in (2, 1, 0)]
