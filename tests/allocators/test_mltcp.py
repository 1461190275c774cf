"""MLTCP: jobs on one link, iteration after iteration, against the shift of the paper."""

import numpy as np
import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.testing import make_view

MB = 1e6
HOSTS = 7
NET = netsim.big_switch(HOSTS, MB)


def training(job, *, begins, sends, period=1.0, iterations=8):
    """A job that computes, and then sends for `sends` of a period of `period` seconds."""
    return JobSpec(job, begins, iterations=iterations, hosts=range(HOSTS), stages=[
        Stage("all", [(0, 1 + job, sends * MB)], compute_s=period - sends)])


def starts(jobs, policy="mltcp"):
    """The instants at which the coflows of each job become valid; shape (jobs, iterations)."""
    coflows = netsim.simulate(NET, Workload(jobs), allocator=policy).coflows
    return np.stack([rows["valid_s"].to_numpy() for _, rows in coflows.groupby("job")])


def shift(delta, sends, slope=1.75, intercept=0.25):
    """By how much two equal jobs move apart in an iteration: equation 2 of the paper."""
    return slope * delta * (sends - delta) / (sends * intercept + slope * delta)


def test_weights():
    """F(0) = 1/4, F(1/2) = 9/8, F(3/4) = 25/16 of three flows out of one host."""
    view = make_view(NET, [[(0, 1, 1e6)], [(0, 2, 2e6)], [(0, 3, 4e6)]], sent=[0, 0.5, 0.75],
                     now=0.0125)
    answer = netsim.make_allocator("mltcp:interval=10ms").allocate(view)
    assert answer.weights.tolist() == pytest.approx([1 / 4, 9 / 8, 25 / 16])
    assert answer.revisit_at == pytest.approx(0.02)


@pytest.mark.parametrize("interval", ["1ms", "50ms"])
@pytest.mark.parametrize(("slope", "intercept"), [(1.75, 0.25), (1.0, 1.0)])
def test_two_jobs_move_apart_as_in_the_paper(interval, slope, intercept):
    """Both jobs send for half of a second in each second, and begin 0.05 s apart.

    While both send, r grows by the weights, and so the weights by their ratio, which stays what it
    was when the second job began: the paper's equation is exact, however long the interval.
    """
    jobs = [training(k, begins=0.05 * k, sends=0.5) for k in range(2)]
    policy = {"name": "mltcp", "slope": slope, "intercept": intercept, "interval": interval}
    first, second = starts(jobs, policy)
    expected = [0.05]
    for _ in range(7):
        expected.append(expected[-1] + shift(expected[-1], 0.5, slope, intercept))
    assert second - first == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("count", [2, 3, 6])
def test_compatible_jobs_interleave(count):
    """Jobs that send for 1/n of each second: max-min keeps all at 2 - 1/n, MLTCP leads to 1.

    For many jobs that are in step at first it is up to twice as fast, as the abstract says.
    """
    jobs = [training(k, begins=1e-3 * k, sends=1 / count, iterations=60) for k in range(count)]
    fair = np.diff(starts([training(k, begins=0.0, sends=1 / count) for k in range(count)],
                          "maxmin"))
    assert fair == pytest.approx(2 - 1 / count)
    apart = np.diff(starts(jobs))
    assert apart[:, 0].max() > 1.2
    assert apart[:, -1] == pytest.approx(1.0, abs=0.02)


def test_without_a_slope_it_is_max_min():
    jobs = [training(k, begins=0.1 * k, sends=0.4 + 0.1 * k) for k in range(3)]
    np.testing.assert_allclose(starts(jobs, "mltcp:slope=0"), starts(jobs, "maxmin"), rtol=1e-9)


@pytest.mark.parametrize("given", ["slope=-1", "intercept=0", "interval=0"])
def test_bad_options(given):
    with pytest.raises(netsim.InputError, match=given.split("=")[0]):
        netsim.make_allocator(f"mltcp:{given}")
