"""What CoflowSim does: equal parts in one pass, its work conservation, its schemes by name."""

import os
from pathlib import Path

import numpy as np
import pytest

import netsim
from netsim.allocators import ALLOCATORS, make_allocator
from netsim.errors import UnknownNameError
from netsim.testing import check_allocator, make_view
from tests.examples import examples
from tests.pairs import few

SIX = netsim.big_switch(4, 6.0)
#: Three flows leave host 0, one of them for host 2, where a fourth arrives from host 3.
FAN = [(0, 1, 9.0), (0, 3, 9.0), (0, 2, 9.0), (3, 2, 9.0)]


def rates(policy, *coflows, net=SIX, **options):
    view = make_view(net, coflows, **options)
    return view.rates(make_allocator(policy).allocate(view)).tolist()


def test_equal_parts_are_not_max_min():
    """Three share egress 0, at 6/3. The fourth has 6/2 of ingress 2; max-min gives it 6 - 2."""
    assert rates("equal-split", FAN) == [2, 2, 2, 3]
    assert rates("maxmin", FAN) == [2, 2, 2, 4]


def test_equal_parts_over_time():
    """Two flows of 6 and 12 from host 0, one of 12 from host 3 to where the second goes.

    3 each until 2, when the first ends; the second and the third, with 6 left, still have
    6/2 of ingress 2: both end at 4.
    """
    stages = [netsim.Stage("only", [(0, 1, 6.0), (0, 2, 12.0), (3, 2, 12.0)])]
    jobs = netsim.Workload([netsim.JobSpec(0, stages=stages, hosts=range(4))])
    result = netsim.simulate(SIX, jobs, allocator="equal-split", record=["flows"])
    assert result.flows["finish_s"].tolist() == [2, 4, 4]


def test_what_is_skipped_shares_the_rest():
    """A takes egress 0, which B and C need; D's flow 2->0 holds its other flow at 2.

    By gamma: A (1), D (1), B (2), C (5/2); MADD gives A 6 and D 2 and 6. In order, B would get
    the 6 of egress 3 that A left. Here B and C split it, and D then takes the 4 that are left
    from 1 to 3.
    """
    coflows = [[(0, 1, 6.0)], [(0, 2, 6.0), (3, 2, 6.0)], [(0, 2, 6.0), (3, 2, 9.0)],
               [(1, 3, 2.0), (2, 0, 6.0)]]
    assert rates("sebf", *coflows) == [6, 0, 6, 0, 0, 6, 6]
    assert rates({"name": "sebf", "work_conservation": "coflowsim"}, *coflows) == [
        6, 0, 3, 0, 3, 6, 6]


@pytest.mark.parametrize(("sharing", "expected"), [("maxmin", [2, 2, 2, 4, 0]),
                                                   ("equal", [2, 2, 2, 3, 1])])
def test_queues_may_give_equal_parts(sharing, expected):
    """Of ingress 2 the first coflow uses 2 + 3 in equal parts, and the second gets 6 - 5."""
    policy = {"name": "aalo", "weights": "strict", "sharing": sharing}
    assert rates(policy, FAN, [(1, 2, 9.0)]) == expected


@pytest.mark.parametrize("name", ALLOCATORS.presets)
def test_presets(name):
    """A preset is its table; options go over it; the result says what it stands for."""
    made = make_allocator(name)
    assert made == make_allocator(ALLOCATORS.presets[name])
    assert ALLOCATORS.presets[name].items() <= ALLOCATORS.to_dict(made).items()
    assert ALLOCATORS.presets[name].items() <= ({"name": ALLOCATORS.presets[name]["name"]}
                                     | ALLOCATORS.options(name)).items()
    check_allocator(name, examples=examples(20))


def test_options_go_over_a_preset():
    assert make_allocator({"name": "coflowsim-sebf", "decisions": "flow"}) == make_allocator(
        {"name": "sebf", "key": "original", "work_conservation": "coflowsim"})
    with pytest.raises(UnknownNameError, match="option of allocator 'coflowsim-fifo' 'key'"):
        make_allocator({"name": "coflowsim-fifo", "key": "original"})
    with pytest.raises(UnknownNameError, match="did you mean 'coflowsim-sebf'"):
        make_allocator("coflowsim_sebf")


@pytest.mark.parametrize(("policy", "seconds"), few([
    ("coflowsim-sebf", 27.3), ("coflowsim-fifo", 87.7), ("coflowsim-dark", 45.1),
    ({"name": "sebf", "key": "original", "decisions": "coflow"}, 24.2)], 1))
def test_the_facebook_trace(policy, seconds):
    """Average CCTs in seconds; each of CoflowSim's own choices shows."""
    folder = Path(os.environ.get("NETSIM_TRACES", Path(__file__).parents[3] / "shared" / "data"))
    path = folder / "coflow-benchmark" / "FB2010-1Hr-150-0.txt"
    if not path.is_file():
        pytest.skip(f"no {path}")
    jobs = netsim.read_workload(path)
    result = netsim.simulate("coflow-benchmark-150-1g", jobs, allocator=policy)
    assert np.mean(result.coflows["cct_s"]) == pytest.approx(seconds, abs=0.05)


def test_the_order_stands_between_coflow_events():
    """Rates are decided when a flow ends, the order at coflow events only. Ports of 1 MB/s.

    At 6 s job 0 has 9 MB left, from host 3 to host 1, and is as light as job 1, which came later:
    it stays first. MADD gives it the ports, and to job 1 nothing, as 3->0 needs egress 3. What is
    left is split: 2->0, 1->0 and 2->3 get 1/2 of ingress 0 or egress 2. The 1 MB flows end at 8 s,
    when job 1 has 1 + 5 MB left of its 9. Ordered by that it would be first. But it waits for a
    coflow event: 2->3 goes on at 1 MB/s until 13 s, job 0 until 15 s, and 3->0 until 16 s.
    """
    mb = 1e6
    jobs = [netsim.JobSpec(k, 5.0 + k, hosts=range(4), stages=[
        netsim.Stage("only", [(src, dst, size * mb) for src, dst, size in flows])])
        for k, flows in enumerate(([(3, 1, 4), (3, 1, 6)],
                                   [(2, 0, 1), (3, 0, 1), (1, 0, 1), (2, 3, 6)]))]
    policy = {"name": "lcf", "key": "remaining", "work_conservation": "coflowsim",
              "decisions": "flow"}
    found = netsim.simulate(netsim.big_switch(4, mb), netsim.Workload(jobs), allocator=policy)
    assert found.jobs["finish_s"].tolist() == pytest.approx([15, 16])
