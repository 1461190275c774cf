"""Classes and slowdowns of coflows."""

import math
import re

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.analysis.coflows import CLASSES
from netsim.errors import InputError

MB = 1e6


def alone(*coflows):
    """Run coflows, lists of (src, dst, MB), so far apart that each has the network to itself."""
    jobs = [JobSpec(job, 1000.0 * job, hosts=range(4),
                    stages=[Stage("c", [(s, d, mb * MB) for s, d, mb in flows])])
            for job, flows in enumerate(coflows)]
    return netsim.simulate(netsim.big_switch(4, MB), Workload(jobs))


def test_thresholds_are_those_of_the_papers():
    """Short: the longest flow is below 5 MB. Narrow: at most 50 flows, of those with bytes."""
    result = alone([(0, 1, 4.999999)], [(0, 1, 5)], [(0, 1, 1)] * 50, [(0, 1, 1)] * 51,
                   [(0, 1, 1)] * 50 + [(0, 1, 5)], [(0, 1, 1)] * 50 + [(0, 1, 0), (2, 2, 9)])
    assert netsim.classify_coflows(result)["class"].tolist() == [
        "short narrow", "long narrow", "short narrow", "short wide", "long wide", "short narrow"]


def test_thresholds_can_be_moved():
    """Coflows whose longest flows have 1 and 2 MB, of 1 and 2 flows."""
    result = alone([(0, 1, 1)], [(0, 1, 2), (2, 3, 1)])
    for short, narrow, classes in [
            ("2MB", 1, [0, 3]), (2.5e6, 2, [0, 0]), ("1MiB", 0, [2, 3]), (0, np.int64(9), [1, 1])]:
        found = netsim.classify_coflows(result, short=short, narrow=narrow)["class"]
        assert found.tolist() == [CLASSES[code] for code in classes]


def test_slowdown_is_cct_over_gamma():
    """Two coflows of 2 MB on one port of 1 MB/s share it: 4 s each, and 2 s alone."""
    jobs = Workload([JobSpec(job, stages=[Stage("c", [(job, 2, 2 * MB)])], hosts=range(4))
                     for job in range(2)])
    result = netsim.simulate(netsim.big_switch(4, MB), jobs, allocator="maxmin")
    assert netsim.classify_coflows(result)["slowdown"].tolist() == [2, 2]


def test_a_coflow_without_bytes_has_no_slowdown():
    result = alone([(0, 1, 0)], [(0, 1, 3)])
    found = netsim.classify_coflows(result)
    assert math.isnan(found["slowdown"][0])
    assert found["slowdown"][1] == 1
    table = netsim.by_class(result).set_index("class")
    assert table.loc["short narrow", ["coflows", "cct_mean_s", "slowdown_mean"]].tolist() == [
        2, 1.5, 1]


def test_the_table():
    """Alone, n flows of b MB on one port take n*b s.

    Short narrow: 1, 2 and 3 s. Long wide: 60 flows of 6 MB take 360 s. 366 MB in all. The 95th
    percentile of 1, 2, 3 lies at 0.95 * 2 = 1.9 of the way from the first to the last: 2.9.
    """
    result = alone([(0, 1, 1)], [(0, 1, 2)], [(0, 1, 3)], [(0, 1, 6)] * 60)
    table = netsim.by_class(result)
    assert table["class"].tolist() == [*CLASSES, "all"]
    table = table.set_index("class")
    assert table["coflows"].tolist() == [3, 0, 0, 1, 4]
    assert table["share_of_coflows"].tolist() == [0.75, 0, 0, 0.25, 1]
    assert table["share_of_bytes"].tolist() == pytest.approx([6 / 366, 0, 0, 360 / 366, 1])
    short = table.loc["short narrow", ["cct_mean_s", "cct_p50_s", "cct_p95_s"]]
    assert short.tolist() == pytest.approx([2, 2, 2.9])
    assert table["cct_mean_s"]["all"] == pytest.approx(366 / 4)
    assert table.loc["long narrow", "cct_mean_s":].isna().all()
    assert table[["slowdown_mean", "slowdown_p95"]].dropna().to_numpy() == pytest.approx(1)


def test_all_is_what_the_summary_says():
    result = netsim.simulate("coflow-benchmark-150-1g", "coflow-sample", allocator="fifo")
    last, summary = netsim.by_class(result).iloc[-1], result.summary()
    for column in ("cct_mean_s", "cct_p50_s", "cct_p95_s"):
        assert last[column] == summary[column]


def test_classes_survive_the_disk(tmp_path):
    result = netsim.simulate("coflow-benchmark-150-1g", "coflow-sample")
    again = netsim.load_result(result.save(tmp_path / "r"))
    pd.testing.assert_frame_equal(netsim.classify_coflows(again), netsim.classify_coflows(result))


def test_no_coflow_has_finished():
    jobs = Workload([JobSpec(0, stages=[Stage("c", [(0, 1, 9 * MB)])])])
    table = netsim.by_class(netsim.simulate(netsim.big_switch(2, MB), jobs, until=1))
    assert table["coflows"].tolist() == [0] * 5
    assert table.loc[:, "share_of_coflows":].isna().all(axis=None)


@pytest.mark.parametrize(("options", "message"), [
    ({"short": "5Mb"}, "short '5Mb' has the unknown unit 'Mb'"),
    ({"short": -1}, "short must be at least 0, not -1"),
    ({"narrow": 2.5}, "narrow must be a whole number of flows of at least 0, not 2.5"),
    ({"narrow": -1}, "narrow must be a whole number of flows of at least 0, not -1"),
    ({"narrow": True}, "narrow must be a whole number of flows of at least 0, not True"),
])
def test_bad_thresholds(options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        netsim.by_class(alone([(0, 1, 1)]), **options)


def test_coflows_that_were_not_recorded():
    result = netsim.simulate("parrot-fig2", "parrot-fig2", record=["jobs"])
    with pytest.raises(InputError, match=r"coflows were not recorded; simulate with record="):
        netsim.classify_coflows(result)
