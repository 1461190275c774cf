"""Lower bounds: what they are by hand, and that no policy is better."""

import math
import sys
from itertools import chain, combinations, permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.allocators import ALLOCATORS, lp_order
from netsim.analysis.bounds import BOUNDS, srpt_total
from netsim.errors import InputError, MissingExtraError, NetsimWarning, UnknownNameError
from netsim.testing import make_view, networks, workloads
from tests.examples import examples

MB = 1e6
HOSTS = 4
NET = netsim.big_switch(HOSTS, MB)
NETWORKS = networks(min_hosts=HOSTS, max_hosts=HOSTS)
DUST = 1e-9


def job(number, *stages, arrival=0.0, **options):
    return JobSpec(number, arrival, stages=stages, hosts=range(HOSTS), **options)


def stage(name, *flows, **options):
    """A stage of flows (src, dst, MB)."""
    return Stage(name, [(s, d, mb * MB) for s, d, mb in flows], **options)


def totals(*jobs, which=BOUNDS[:-1], net=NET):
    return netsim.lower_bounds(net, Workload(jobs), which=which).totals


@st.composite
def offline(draw, max_coflows=5):
    """Coflows with weights, a job each, all at time 0."""
    count = draw(st.integers(1, max_coflows))
    flow = st.tuples(st.integers(0, HOSTS - 1), st.integers(0, HOSTS - 1), st.integers(0, 9))
    return Workload([job(number, stage("c", *draw(st.lists(flow, max_size=4)),
                                       weight=float(draw(st.integers(1, 4)))))
                     for number in range(count)])


# --- by hand -------------------------------------------------------------------------------


def test_two_coflows_on_one_port():
    """2 and 1 MB through egress 0, 4 MB elsewhere. Alone: 2 + 1 + 4; on egress 0 first 1, then 3.

    BSSI: ingress 3 has 4 s, egress 0 has 3: theta is 1/4 and gives (16 + 16)/2/4 = 4. Then
    egress 0: 2 MB last, theta 1/2, and (9 + 5)/2/2 = 3.5; the other weight is 1/2: + 1/2.
    """
    found = totals(job(0, stage("c", (0, 1, 2))), job(1, stage("c", (0, 2, 1))),
                   job(2, stage("c", (1, 3, 4))))
    assert found.index.tolist() == ["isolation", "single-link", "bssi"]
    assert found["finish_s"].tolist() == found["weighted_finish_s"].tolist() == [7, 8, 8]
    assert found["cct_mean_s"].tolist() == pytest.approx([7 / 3, 8 / 3, 8 / 3])


def test_weights():
    """As above with weights 6, 1 and 1: 6*2 + 1 + 4 alone. Only sums with weights are bounded.

    BSSI: 4 for the last; then the 1 MB, for 1/1 < 6/2: theta 1, 7, and 4 is left for 2 s: + 8.
    """
    found = totals(job(0, stage("c", (0, 1, 2), weight=6)), job(1, stage("c", (0, 2, 1))),
                   job(2, stage("c", (1, 3, 4))))
    assert found["weighted_finish_s"].tolist() == [17, pytest.approx(math.nan, nan_ok=True), 19]
    assert found["finish_s"].tolist() == [7, 8, pytest.approx(math.nan, nan_ok=True)]
    assert math.isnan(found["cct_mean_s"]["bssi"])


def test_equal_weights_bound_both_sums():
    """Two coflows of 1 MB on one port: 1 + 2 s, and three times that."""
    found = totals(*(job(number, stage("c", (0, 1, 1), weight=3)) for number in range(2)))
    assert found["finish_s"].tolist() == [2, 3, 3]
    assert found["weighted_finish_s"].tolist() == [6, 9, 9]


def test_arrivals():
    """3 MB at 10 s and 1 MB at 11 s on one port: the short one goes first, until 12; 3 MB: 14 s."""
    found = totals(job(0, stage("c", (0, 1, 3)), arrival=10),
                   job(1, stage("c", (0, 1, 1)), arrival=11), which=["single-link", "isolation"])
    assert found["finish_s"].to_dict() == {"isolation": 25, "single-link": 26}
    assert found["cct_mean_s"].to_dict() == {"isolation": 2, "single-link": 2.5}


def test_dependent_coflows_are_valid_when_they_can_be():
    """From 1 s: a takes 1 s; b, 1/2 s after a, 2 s; c, from 3 s after the arrival on, 1 s.

    That is until 2, 4.5 and 5. The second iteration begins at 5: a until 6, b from 6.5 to 8.5,
    c from 5 to 6, but it may not finish before b: 8.5.
    """
    stages = [stage("c", (2, 3, 1), release_s=3, finishes_before=["b"]),
              stage("b", (0, 1, 2), after=["a"], compute_s=0.5), stage("a", (0, 1, 1))]
    found = netsim.lower_bounds(NET, Workload([job(5, *stages, arrival=1, iterations=2)]))
    rows = found.coflows
    assert rows[["coflow", "job", "iteration", "stage"]].to_numpy().tolist() == [
        [0, 5, 0, "c"], [1, 5, 0, "b"], [2, 5, 0, "a"], [3, 5, 1, "c"], [4, 5, 1, "b"],
        [5, 5, 1, "a"]]
    assert rows["valid_s"].tolist() == [4, 2.5, 1, 5, 6.5, 5]
    assert rows["finish_s"].tolist() == [5, 4.5, 2, 8.5, 8.5, 6]
    assert found.totals["finish_s"]["isolation"] == 34.5
    assert found.totals["cct_mean_s"]["isolation"] == 4 / 3
    assert found.totals["cct_mean_s"].isna().tolist() == [False, True, True]


def test_computation_alone_does_not_unfix_a_coflow():
    """A coflow after computation, or after one without bytes, is always valid at the same time."""
    found = totals(job(0, Stage("wait", compute_s=2), stage("none", after=["wait"]),
                       stage("c", (0, 1, 1), after=["none"])), job(1, stage("c", (0, 1, 1))))
    assert found["cct_mean_s"].to_dict() == {
        "isolation": pytest.approx(2 / 3), "single-link": pytest.approx(2 / 3),
        "bssi": pytest.approx((2 + 3 - 4) / 3)}


def test_ranks_that_compute():
    """Passes of 2 s, and reductions of 3 s under the next pass: 2 to 5 s, 5 to 8 s.

    The second reduction waits for the first, so that CCTs are bounded by isolation alone. Two jobs
    alike need each port for 12 s from 2 s on: one is done at 5 and 8, the other at 11 and 14.
    """
    stages = [Stage("pass", compute_s=2, ranks=[0, 1], after_previous=["pass"]),
              Stage("reduce", [(0, 1, 3.0), (1, 0, 3.0)], after=["pass"],
                    after_previous=["reduce"])]
    jobs = [JobSpec(k, iterations=2, hosts=(0, 1), stages=stages) for k in range(2)]
    network = netsim.big_switch(2, 1.0)
    bounds = netsim.lower_bounds(network, Workload(jobs[:1]))
    assert bounds.coflows[["iteration", "valid_s", "finish_s", "gamma_s"]].values.tolist() == [
        [0, 2, 5, 3], [1, 5, 8, 3]]
    assert bounds.totals.loc["isolation", "cct_mean_s"] == 3
    assert np.isnan(bounds.totals.loc["single-link", "cct_mean_s"])
    both = netsim.lower_bounds(network, Workload(jobs)).totals["finish_s"]
    assert both["isolation"] == 2 * (5 + 8)
    # Shortest first on a port: valid at 2, 2, 5 and 5, of 3 s each.
    assert both["single-link"] == 5 + 8 + 11 + 14


@pytest.mark.parametrize("policy", ["maxmin", "sebf", "parrot", "aalo"])
@pytest.mark.filterwarnings("ignore:jobs .* compute on host")
def test_no_policy_is_better_with_ranks_that_compute(policy):
    """Of two language models and a ring on the same hosts, coflow by coflow and in sum."""
    tiny = {"layers": 4, "hidden": 64, "ffn": 256, "heads": 2, "vocab": 256, "sequence": 16}
    jobs = Workload([
        netsim.llm_job(tiny, id=k, tp=2, pp=2, dp=2, global_batch=4, iterations=2,
                       arrival_s=k * 1e-4, forward_s=[1e-4] * 3) for k in range(2)] + [
        JobSpec(2, iterations=3, hosts=range(8), pattern="ring-all-reduce", nbytes=1e4, ranks=8)])
    network = netsim.gpu_cluster(2, 4, "1GB/s", "100MB/s")
    bounds = netsim.lower_bounds(network, jobs)
    run = netsim.simulate(network, jobs, allocator=policy, record=("jobs", "coflows"))
    found = run.coflows.set_index("coflow").loc[bounds.coflows["coflow"]]
    least = bounds.coflows.set_index("coflow")
    assert len(found) == len(run.coflows)
    for name in ("valid_s", "finish_s"):
        assert (found[name] >= least[name] * (1 - 1e-9)).all()
    assert found["finish_s"].sum() >= bounds.totals["finish_s"].max() * (1 - 1e-9)


def test_coflows_without_bytes():
    found = totals(job(0, stage("c", (0, 1, 0)), arrival=3), which=BOUNDS)
    assert found["finish_s"].tolist() == [3] * 4
    assert found["cct_mean_s"].tolist() == [0] * 4


def test_names_and_paths_will_do():
    found = netsim.lower_bounds("coflow-benchmark-150-1g", "coflow-sample")
    result = netsim.simulate("coflow-benchmark-150-1g", "coflow-sample")
    assert found.coflows["gamma_s"].tolist() == result.coflows["gamma_s"].tolist()
    assert found.totals["cct_mean_s"]["isolation"] == result.coflows["gamma_s"].mean()


def test_what_cannot_be_bounded():
    with pytest.raises(UnknownNameError, match=r"unknown bound 'bsi' \(did you mean 'bssi'\?\)"):
        totals(job(0, stage("c", (0, 1, 1))), which=["isolation", "bsi"])
    with pytest.raises(InputError, match="the workload has no coflows: its jobs only compute"):
        totals(job(0, Stage("wait", compute_s=1)))
    with pytest.raises(InputError, match="job 0: host 3 is out of range"):
        totals(job(0, stage("c", (0, 1, 1))), net=netsim.big_switch(3, MB))


# --- one machine, and the LP ---------------------------------------------------------------


def static(order, valid, seconds):
    """Finish times, unit by unit of time, where the first in `order` that can goes first."""
    left, finish, now = list(seconds), list(valid), 0
    while any(left):
        for each in order:
            if left[each] and valid[each] <= now:
                left[each] -= 1
                finish[each] = now + 1
                break
        now += 1
    return sum(finish)


@settings(deadline=None, max_examples=examples(60), derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=4))
def test_srpt_is_the_best_of_all_orders(jobs):
    """To serve in the order of the best schedule's finish times makes no job later."""
    valid, seconds = zip(*jobs, strict=True)
    best = min(static(order, valid, seconds) for order in permutations(range(len(jobs))))
    assert srpt_total(np.array(valid, float), np.array(seconds, float)) == best


def in_full(earliest, weight, loads, pairs=(), begin=None):
    """The LP with the constraints of all sets of all links, and of pairs (child, parent, gap)."""
    begin = np.zeros(len(weight)) if begin is None else begin
    from scipy.optimize import linprog

    rows, least = [], []
    for child, parent, gap in pairs:
        rows.append(np.eye(len(weight))[child] - np.eye(len(weight))[parent])
        least.append(gap)
    for seconds in loads:
        on = np.flatnonzero(seconds)
        for group in chain.from_iterable(combinations(on, size) for size in range(1, len(on) + 1)):
            part = np.zeros(len(weight))
            part[list(group)] = seconds[list(group)]
            rows.append(part)
            least.append((part.sum() ** 2 + (part ** 2).sum()) / 2
                         + part.sum() * begin[list(group)].min())
    solved = linprog(weight, A_ub=-np.array(rows), b_ub=-np.array(least),
                     bounds=[(low, None) for low in earliest])
    assert solved.success
    return solved.fun


@settings(deadline=None, max_examples=examples(60), derandomize=True)
@given(st.data())
def test_cutting_planes_find_the_optimum_of_the_whole_lp(data):
    pytest.importorskip("scipy")
    count, links = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    numbers = st.lists(st.integers(0, 9), min_size=count, max_size=count)
    loads = np.array([data.draw(numbers) for _ in range(links)], float)
    loads[0, 0] += 1
    weight = 1.0 + np.array(data.draw(numbers))
    earliest = data.draw(numbers) + loads.max(axis=0)
    link, owner = np.nonzero(loads)
    given = earliest, weight, owner, link, loads[link, owner]
    full = in_full(earliest, weight, loads)
    assert lp_order.ordering(*given).bound == pytest.approx(full, rel=1e-6)

    pairs = [(child, parent, float(data.draw(st.integers(0, 9)))) for child in range(1, count)
             for parent in range(child) if data.draw(st.booleans())]
    for child, parent, gap in pairs:  # earliest times are those of the longest path
        earliest[child] = max(earliest[child], earliest[parent] + gap)
    weight[:-1] *= data.draw(st.booleans())  # only the last counts, as of a job
    columns = np.array(pairs).reshape(-1, 3).T
    begin = (earliest - loads.max(axis=0)) * data.draw(st.booleans())
    found = lp_order.ordering(*given, *columns[:2].astype(int), columns[2], begin)
    assert found.bound == pytest.approx(in_full(earliest, weight, loads, pairs, begin), rel=1e-6)
    assert weight @ found.finish == pytest.approx(found.bound)
    assert all(found.finish[child] >= found.finish[parent] + gap - 1e-6
               for child, parent, gap in pairs)


def test_an_lp_stopped_early_says_so_and_is_a_bound(monkeypatch):
    """Stopped before the first cut it is isolation, 1 and 1 s: 2 s; the optimum is 1 and 2 s."""
    pytest.importorskip("scipy")
    jobs = [job(number, stage("c", (0, 1, 1))) for number in range(2)]
    assert totals(*jobs, which=["lp"])["finish_s"]["lp"] == pytest.approx(3)
    monkeypatch.setattr(lp_order, "_ROUNDS", 0)
    with pytest.warns(NetsimWarning, match="stopped early: 2 s is a lower bound, but the LP's "
                                           "optimum may be up to 3 s"):
        assert totals(*jobs, which=["lp"])["finish_s"]["lp"] == 2


def test_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    jobs = [job(0, stage("c", (0, 1, 1)))]
    assert len(totals(*jobs)) == 3
    with pytest.raises(MissingExtraError, match=r"pip install 'coflow-netsim\[ilp\]'"):
        totals(*jobs, which=["lp"])


# --- against what policies do --------------------------------------------------------------


def holds(bounds, result):
    """No finish time, sum of them or mean CCT is below its bound."""
    key = ["job", "iteration", "stage"]
    pairs = bounds.coflows.merge(result.coflows.astype({"stage": str}), on=key,
                                 suffixes=("", "_seen"))
    assert len(pairs) == len(bounds.coflows) == len(result.coflows)
    assert (pairs["coflow"] == pairs["coflow_seen"]).all()
    assert (pairs["gamma_s"] == pairs["gamma_s_seen"]).all()
    for column in ("valid_s", "finish_s"):
        assert (pairs[column] <= pairs[f"{column}_seen"] * (1 + DUST)).all()
    seen = {"finish_s": pairs["finish_s_seen"].sum(),
            "weighted_finish_s": pairs["weight"] @ pairs["finish_s_seen"],
            "cct_mean_s": pairs["cct_s"].mean()}
    for column, value in seen.items():
        least = bounds.totals[column].dropna()
        slack = np.where(least.index == "lp", 1e-6, DUST) * seen["finish_s"]
        assert (least <= value + slack).all(), (column, value, least)


@pytest.mark.parametrize("policy", ALLOCATORS)
@settings(deadline=None, max_examples=examples(20), derandomize=True)
@given(NETWORKS, offline())
def test_no_policy_is_better_offline(policy, network, workload):
    pytest.importorskip("scipy")
    bounds = netsim.lower_bounds(network, workload, which=BOUNDS)
    assert bounds.totals.loc["isolation"].notna().all()
    holds(bounds, netsim.simulate(network, workload, allocator=policy))


@pytest.mark.parametrize("policy", ALLOCATORS)
@settings(deadline=None, max_examples=examples(20), derandomize=True)
@given(NETWORKS, workloads(HOSTS), st.sampled_from([0.0, 0.3]), st.integers(0, 2))
def test_no_policy_is_better_with_dependencies(policy, network, workload, interval, seed):
    pytest.importorskip("scipy")
    assume(any(job.pattern or any(each.flows is not None for each in job.stages)
               for job in workload))
    bounds = netsim.lower_bounds(network, workload, which=BOUNDS, seed=seed)
    holds(bounds, netsim.simulate(network, workload, allocator=policy, seed=seed,
                                  observe_interval=interval))


@settings(deadline=None, max_examples=examples(100), derandomize=True)
@given(NETWORKS, offline(8))
def test_the_lp_is_above_bssi_and_isolation(network, workload):
    """BSSI's dual is a feasible solution of the dual of an LP without ``C >= earliest``."""
    pytest.importorskip("scipy")
    found = netsim.lower_bounds(network, workload, which=BOUNDS).totals["weighted_finish_s"]
    assert found["lp"] >= max(found["bssi"], found["isolation"]) * (1 - 1e-6)


@settings(deadline=None, max_examples=examples(100), derandomize=True)
@given(NETWORKS, offline(8))
def test_sincronia_is_near_its_dual_bound(network, workload):
    """The order, served link by link, costs at most twice the dual; the schedule, four times."""
    flows = [(list(each.stages[0].flows), each.stages[0].weight) for each in workload]
    sent = [(coflow, weight) for coflow, weight in flows if any(
        nbytes and (network.loopback_uses_ports or src != dst) for src, dst, nbytes in coflow)]
    bounds = netsim.lower_bounds(network, workload, which=["bssi"])
    dual = bounds.totals["weighted_finish_s"]["bssi"]
    if not sent:
        assert dual == 0
        return
    order, _ = make_view(network, [coflow for coflow, _ in sent],
                         weight=[weight for _, weight in sent]).bssi()
    busy, cost = np.zeros(network.links), 0.0
    for place in order:
        coflow, weight = sent[place]
        load = np.zeros(network.links)
        for src, dst, nbytes in coflow:
            load[network.route(src, dst)] += nbytes
        busy += load / network.capacity
        cost += weight * busy[load > 0].max()
    assert dual <= cost * (1 + DUST)
    assert cost <= 2 * dual * (1 + DUST)
    result = netsim.simulate(network, workload,
                             allocator={"name": "sincronia", "reorder": "arrival"})
    weights = [weight for _, weight in flows]
    assert dual * (1 - DUST) <= weights @ result.coflows["finish_s"] <= 4 * dual * (1 + DUST)
