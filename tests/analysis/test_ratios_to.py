"""Times over those of a named baseline, by class of coflow."""

import math
import re

import pandas as pd
import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.analysis.coflows import CLASSES
from netsim.analysis.intervals import geometric_interval
from netsim.errors import InputError, UnknownNameError

MB = 1e6
NET = netsim.big_switch(3, MB)
FIG2 = ("parrot-fig2", "parrot-fig2")


def one_port(*sizes):
    """Jobs of one coflow each, of so many MB, all through one port of 1 MB/s from time 0."""
    return Workload([JobSpec(job, stages=[Stage("c", [(0, 1, size * MB)])], hosts=range(3))
                     for job, size in enumerate(sizes)])


def each(name):
    return [f"{name}_{figure}" for figure in ("each_ratio", "each_ratio_low", "each_ratio_high",
                                              "shorter", "longer")]


def all_rows(ratios):
    return ratios[ratios["class"] == "all"].set_index("label")


def test_ratios_are_of_the_others_over_the_baseline():
    """1, 2 and 6 MB on one port end, shared fairly, at 3, 5 and 9 s; smallest first, at 1, 3 and 9.

    Alone they take 1, 2 and 6 s. Short are the first two: means 4 and 2, medians 4 and 2;
    ratios 1/3 and 3/5, of which the geometric mean is the root of 1/5. Long is the last: 9 and 9.
    Of all, the means are 17/3 and 13/3, and two of three are shorter. 95th percentiles lie at 0.9
    of the way from the second to the third: 5 + 3.6 and 3 + 5.4. As each job is a coflow, what
    holds of CCTs does of JCTs.
    """
    ratios = netsim.compare(NET, one_port(1, 2, 6), ["maxmin", "sebf"]).against("maxmin")
    assert list(ratios.columns) == [
        "label", "baseline", "class", "coflows", "cct_mean_ratio", "cct_p50_ratio",
        "cct_p95_ratio", "cct_p99_ratio", *each("cct"), "jct_total_ratio", *each("jct")]
    assert set(ratios["baseline"]) == {"maxmin"}
    assert ratios["label"].tolist() == ["sebf"] * 5 + ["lower bound"] * 5
    assert ratios["class"].tolist() == [*CLASSES, "all"] * 2
    assert ratios["coflows"].tolist() == [2, 1, 0, 0, 3] * 2
    rows = ratios.set_index(["label", "class"]).drop(columns=["baseline", "coflows"])
    assert rows.loc[("sebf", "short narrow"), ["cct_mean_ratio", "cct_p50_ratio",
                                            "cct_each_ratio"]].tolist() == (
        pytest.approx([1 / 2, 1 / 2, 5 ** -0.5]))
    assert rows.loc[("sebf", "long narrow"), :"cct_each_ratio"].tolist() == pytest.approx([1] * 5)
    overall = rows.loc[("sebf", "all"), :"cct_each_ratio"].drop("cct_p99_ratio")
    assert overall.tolist() == pytest.approx(
        [13 / 17, 3 / 5, 8.4 / 8.6, 5 ** (-1 / 3)])
    assert rows.loc[("lower bound", "all"), :"cct_each_ratio"].drop(
        ["cct_p95_ratio", "cct_p99_ratio"]).tolist() == (
        pytest.approx([9 / 17, 2 / 5, (1 / 3 * 2 / 5 * 6 / 9) ** (1 / 3)]))
    for label, mean in (("sebf", 13 / 17), ("lower bound", 9 / 17)):
        assert rows.loc[(label, "all"), "jct_total_ratio"] == pytest.approx(mean)
        assert rows.loc[(label, "all"), each("jct")].tolist() == pytest.approx(
            rows.loc[(label, "all"), each("cct")].tolist())
    assert rows.loc[("sebf", "all"), ["cct_shorter", "cct_longer"]].tolist() == [2, 0]
    assert rows.loc[("lower bound", "all"), ["cct_shorter", "cct_longer"]].tolist() == [3, 0]
    _, low, high = geometric_interval([1 / 3, 3 / 5])
    ends = rows.loc[("sebf", "short narrow"), ["cct_each_ratio_low", "cct_each_ratio_high"]]
    assert ends.tolist() == pytest.approx([low, high])
    assert rows.loc[("sebf", "short wide")].isna().all()
    assert rows.loc[("sebf", "short narrow"), "jct_total_ratio":].isna().all()


def test_ratios_both_ways_are_inverse():
    compared = netsim.compare(*FIG2, ["sebf", "aalo", "fifo"])
    there, back = (all_rows(compared.against(name)) for name in ("sebf", "aalo"))
    for name in ("cct_mean", "cct_p50", "cct_p95", "cct_p99", "cct_each", "jct_total", "jct_each"):
        column = f"{name}_ratio"
        assert there[column]["aalo"] * back[column]["sebf"] == pytest.approx(1)
    assert there["cct_shorter"]["aalo"] == back["cct_longer"]["sebf"]


def test_no_ratio_is_below_that_of_the_lower_bound():
    compared = netsim.compare("coflow-benchmark-150-1g", "coflow-sample",
                              ["fifo", "sebf", "aalo", "sincronia", "maxmin"])
    ratios = compared.against().set_index(["class", "label"])
    for name in ("short narrow", "long narrow", "all"):
        group = ratios.loc[name, [f"cct_{figure}_ratio" for figure in (
            "mean", "p50", "p95", "p99", "each")]]
        assert (group >= group.loc["lower bound"] * (1 - 1e-9)).all(axis=None)


def test_coflows_are_matched_by_job_iteration_and_stage():
    """Under either policy another stage completes first, so that names are met in another order.

    A job sends a, 1 MB, and b, 2 MB, at once through one port. The longest is served first, then
    the shortest: 3 and 2 s, or 1 and 3 s.
    """
    class Ranked(netsim.Allocator):
        def __init__(self, sign):
            self.sign = sign

        def allocate(self, view):
            return netsim.Allocation(shares=view.greedy((self.sign * view.longest).argsort()))

    jobs = Workload([JobSpec(0, stages=[Stage("a", [(0, 1, MB)]), Stage("b", [(0, 1, 2 * MB)])],
                             hosts=range(3))])
    compared = netsim.compare(NET, jobs, {"last": Ranked(-1), "first": Ranked(1)})
    assert list(compared.results["last"].coflows["stage"].cat.categories) == ["b", "a"]
    assert list(compared.results["first"].coflows["stage"].cat.categories) == ["a", "b"]
    ratios = all_rows(compared.against("last"))
    assert ratios["cct_each_ratio"]["first"] == pytest.approx(2 ** -0.5)  # 1/3 and 3/2


def test_a_coflow_that_stands_twice_is_refused(tmp_path):
    """As in a damaged file; else nobody knows which one it is to be held against."""
    folder = netsim.compare(NET, one_port(1, 2), ["maxmin", "sebf"]).save(tmp_path / "c")
    path = folder / "sebf" / "coflows.csv"
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
    with pytest.raises(InputError, match="two coflows of job 1, iteration 0, stage"):
        netsim.load_comparison(folder).against()


def test_thresholds_reach_the_classes():
    ratios = netsim.compare(NET, one_port(1, 2, 6), ["maxmin", "sebf"]).against(
        short="1.5MB", narrow=0)
    assert ratios["coflows"].tolist() == [0, 0, 1, 2, 3] * 2
    with pytest.raises(InputError, match="narrow must be a whole number"):
        netsim.compare(NET, one_port(1), ["maxmin"]).against(narrow=0.5)


def test_coflows_without_bytes_count_only_where_they_can():
    ratios = netsim.compare(NET, one_port(0, 2, 2), ["maxmin", "sebf"]).against()
    row = all_rows(ratios).loc["sebf"]
    assert (row["cct_mean_ratio"], row["cct_each_ratio"]) == pytest.approx((6 / 8, 2 ** -0.5))
    nothing = all_rows(netsim.compare(NET, one_port(0), ["maxmin", "sebf"]).against())
    assert nothing.loc[:, "cct_mean_ratio":].isna().all(axis=None)


def test_what_has_not_finished_has_no_ratios():
    """At 14 s one of two jobs has finished under Parrot, none under LCCF, both at 28 s."""
    stopped = netsim.compare(*FIG2, ["parrot", "lccf"], until=14)
    ratios = stopped.against()
    assert ratios.loc[:, "cct_mean_ratio":].isna().all(axis=None)
    assert ratios["coflows"].tolist() == [2, 0, 0, 0, 2] * 2


def test_total_jct_without_records_of_coflows():
    ratios = netsim.compare(*FIG2, ["parrot", "maxmin"], record=["jobs"]).against("maxmin")
    assert ratios[["label", "class"]].to_numpy().tolist() == [
        ["parrot", "all"], ["lower bound", "all"]]
    assert ratios["jct_total_ratio"].tolist() == pytest.approx([(28 + 116 / 9) / 48, 28 / 48])
    assert ratios["cct_mean_ratio"].isna().all()


def test_the_baseline_of_the_comparison_is_that_of_its_tables(tmp_path):
    policies = ["sebf", "aalo", "maxmin"]
    first, named = (netsim.compare(*FIG2, policies, baseline=baseline)
                    for baseline in (None, "maxmin"))
    assert first.table["over_baseline"][0] == named.table["over_baseline"][2] == 1
    pd.testing.assert_frame_equal(named.against(), first.against("maxmin"))
    pd.testing.assert_frame_equal(named.against("sebf"), first.against())
    assert not (first.save(tmp_path / "first") / "ratios.csv").exists()
    written = pd.read_csv(named.save(tmp_path / "named") / "ratios.csv")
    pd.testing.assert_frame_equal(written.astype(named.against().dtypes), named.against())
    assert named.save(tmp_path / "named") == tmp_path / "named"


def test_an_unknown_baseline(monkeypatch):
    message = re.escape("unknown baseline 'sebv' (did you mean 'sebf'?); choose from: aalo, sebf")
    compared = netsim.compare(*FIG2, ["sebf", "aalo"])
    with pytest.raises(UnknownNameError, match=message):
        compared.against("sebv")
    monkeypatch.setattr("netsim.studies.tasks.simulate_spec", lambda *_, **__: pytest.fail("ran"))
    with pytest.raises(UnknownNameError, match=message):
        netsim.compare(*FIG2, ["sebf", "aalo"], baseline="sebv")


def test_a_baseline_in_the_experiment(tmp_path):
    """It is kept with the results, which run again to the same bytes."""
    spec = {"network": {"name": "parrot-fig2"}, "workload": {"name": "parrot-fig2"},
            "compare": {"allocators": ["sebf", "aalo"], "baseline": "aalo"}}
    compared = netsim.studies.compare.compare_experiment(netsim.Experiment(**spec))
    assert compared.baseline == "aalo"
    assert "baseline" not in compared.results["sebf"].spec.get("compare", {})
    one = compared.save(tmp_path / "one")
    two = netsim.studies.compare.compare_experiment(one / "spec.toml").save(tmp_path / "two")
    for name in ("ratios.csv", "comparison.csv", "spec.toml"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
    assert math.isclose(compared.table["over_baseline"][1], 1)
