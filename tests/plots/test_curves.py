"""Distributions, and what is active over time: what is drawn, not how it looks."""

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.errors import InputError, MissingExtraError, UnknownNameError
from netsim.plots import style
from netsim.plots.curves import active_curves, cdf_curves, decision_marks, timeline

pytestmark = pytest.mark.usefixtures("matplotlib")

MB = 1e6
NET = netsim.big_switch(3, MB)


def one_port(*sizes, arrivals=()):
    """Jobs of one coflow each, of so many MB, all through one port of 1 MB/s."""
    return Workload([JobSpec(job, arrivals[job] if arrivals else 0,
                             stages=[Stage("c", [(0, 1, size * MB)])], hosts=range(3))
                     for job, size in enumerate(sizes)])


@pytest.fixture(scope="module")
def compared():
    """1, 2 and 6 MB on one port end, shared fairly, at 3, 5 and 9 s; smallest first, at 1, 3, 9."""
    return netsim.compare(NET, one_port(1, 2, 6), ["maxmin", "sebf"])


def texts(items):
    return [item.get_text() for item in items]


def points(ax):
    return {line.get_label(): line.get_xydata().tolist() for line in ax.get_lines()}


# --- curves --------------------------------------------------------------------------------


def test_curves_rise_at_each_cct(compared):
    ax = cdf_curves(compared.results, "cct")
    curves = {line.get_label(): line.get_xydata().tolist() for line in ax.get_lines()}
    thirds = [0, 1 / 3, 2 / 3, 1]
    for label, times in {"alone": (1, 2, 6), "maxmin": (3, 5, 9), "sebf": (1, 3, 9)}.items():
        assert curves[label] == [pytest.approx(point) for point
                                 in zip((times[0], *times), thirds, strict=True)]
    assert ax.get_xscale() == "log"
    assert texts(ax.get_legend().get_texts()) == ["alone", "maxmin", "sebf"]


def test_curves_begin_above_coflows_that_took_no_time():
    ax = cdf_curves(netsim.compare(NET, one_port(0, 0, 2), ["maxmin"]).results, "cct")
    for line in ax.get_lines():
        assert line.get_xydata().tolist() == [[2, pytest.approx(2 / 3)], [2, 1]]


def test_coflows_without_bytes_take_no_time_alone():
    """Held by another they may take some."""
    stages = [Stage("a", [(0, 1, 2 * MB)]), Stage("b", [(0, 1, 0)], finishes_before=["a"])]
    result = netsim.simulate(NET, Workload([JobSpec(0, stages=stages, hosts=range(3))]))
    held = type(result)(result.jobs, result.coflows[result.coflows["stage"] == "b"], None, None,
                        None, result.run)
    assert [line.get_label() for line in cdf_curves({"held": held}, "cct").get_lines()] == ["held"]


def test_many_coflows_make_a_curve_of_few_points():
    """Of 5,000 coflows that each take 1 ms longer than the one before."""
    result = netsim.simulate(NET, one_port(1))
    coflows = pd.concat([result.coflows] * 5000, ignore_index=True)
    coflows["cct_s"] = np.arange(1, 5001) / 1000
    many = type(result)(result.jobs, coflows, None, None, None, result.run)
    x, y = cdf_curves({"many": many}, "cct").get_lines()[1].get_data()
    assert len(x) < 1100
    np.testing.assert_allclose(y[1:], x[1:] / 5, rtol=1e-12)
    assert (x[1], x[-1]) == (0.001, 5)


def test_lines_differ_where_colours_repeat(compared):
    ax = cdf_curves({f"run {number}": compared.results["sebf"] for number in range(14)}, "cct")
    looks = {(line.get_color(), str(line.get_linestyle()), line.get_linewidth(),
              str(line._dash_pattern)) for line in ax.get_lines()}
    assert len(looks) == 15


def test_jct_curves_and_their_bound():
    """Jobs of 1 and 2 MB at 0 and 1 s, first come, first served: 1 and 2 s, as alone."""
    ax = cdf_curves({"fifo": netsim.simulate(NET, one_port(1, 2, arrivals=(0, 1)),
                                             allocator="fifo")})
    assert points(ax) == {"alone": [[1, 0], [1, 0.5], [2, 1]], "fifo": [[1, 0], [1, 0.5], [2, 1]]}
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("JCT", "share of jobs")


def test_a_stopped_run_ends_at_its_share_of_jobs():
    result = netsim.simulate(NET, one_port(1, 2, 6), allocator="sebf", until=4)
    curve = points(cdf_curves({"a": result}))["a"]
    assert curve[-1] == pytest.approx([3, 2 / 3])


def test_times_may_be_given_for_results():
    ax = cdf_curves({"pooled": [4.0, 1.0, np.nan, 2.0], "other": pd.Series([3.0])})
    assert points(ax) == {"pooled": [[1, 0], [1, 0.25], [2, 0.5], [4, 0.75]],
                          "other": [[3, 0], [3, 1]]}


def test_ticks_are_in_units_for_people():
    ax = cdf_curves({"a": [0.2, 4000.0]})
    assert texts(ax.get_xticklabels()) == ["1 s", "10 s", "1 min", "10 min", "1 h"]
    assert texts(cdf_curves({"a": [1.0, 9.0]}).get_xticklabels()) == ["1 s", "2 s", "5 s", "10 s"]
    assert len(cdf_curves({"a": [3.0, 3.1]}).get_xticklabels()) > 1


def test_without_work_conservation_is_dashed_and_hollow():
    labels = ["lccf", "parrot (theta_max=0.6)", "lccf (work_conservation=none)",
              "parrot (theta_max=0.6, work_conservation=none)", "aalo (work_conservation=none)"]
    ax = cdf_curves({label: [1.0, 2.0] for label in labels})
    full, other, none, other_none, alone = ax.get_lines()
    for with_it, without in ((full, none), (other, other_none)):
        assert with_it.get_color() == without.get_color() == with_it.get_markerfacecolor()
        assert with_it.get_marker() == without.get_marker()
        assert without.get_markerfacecolor() == "white"
        assert (with_it.is_dashed(), without.is_dashed()) == (False, True)
    assert len({full.get_color(), other.get_color(), alone.get_color()}) == 3
    assert alone.is_dashed()
    assert texts(ax.get_legend().get_texts())[2] == "lccf (no WC)"


def test_unknown_distributions_and_nothing_to_draw(compared):
    with pytest.raises(UnknownNameError, match=r"unknown distribution 'fct'.*: cct, jct"):
        cdf_curves(compared.results, "fct")
    bare = netsim.simulate(NET, one_port(1), record=["jobs"])
    with pytest.raises(InputError, match=r"coflows were not recorded; .*record=\['jobs', 'cof"):
        cdf_curves({"a": bare}, "cct")
    for nothing in ({}, {"a": []}, {"a": [np.nan]}, {"a": [0.0]}):
        with pytest.raises(InputError, match="nothing to draw: no jobs have completed after"):
            cdf_curves(nothing)


# --- over time -----------------------------------------------------------------------------


def test_active_jobs_and_coflows_step_at_each_change():
    """1 MB from 0, 2 MB from 0.5 s, first come, first served: to 1 and 3 s."""
    jobs = Workload([JobSpec(job, arrival, stages=[Stage("c", [(0, 1, size * MB)], compute_s=0.25)],
                             hosts=range(3)) for job, arrival, size in ((0, 0, 1), (1, 0.5, 2))])
    result = netsim.simulate(NET, jobs, allocator="fifo")
    assert points(active_curves({"fifo": result})) == {
        "fifo": [[0, 1], [0.5, 2], [1.25, 1], [3.25, 0]]}
    assert points(active_curves({"fifo": result}, "coflows")) == {
        "fifo": [[0.25, 1], [0.75, 2], [1.25, 1], [3.25, 0]]}


def test_a_stopped_run_is_active_to_its_end():
    result = netsim.simulate(NET, one_port(1, 2, 6, arrivals=(0, 0, 5)), allocator="sebf", until=2)
    assert points(active_curves({"a": result})) == {"a": [[0, 2], [1, 1], [2, 0]]}


def test_many_changes_are_drawn_as_means():
    """One after the other on the port, each as long as until the next: always one."""
    jobs = one_port(*[1] * 300, arrivals=[2 * job for job in range(300)])
    result = netsim.simulate(NET, jobs, allocator="fifo")
    x, y = active_curves({"a": result}).get_lines()[0].get_data()
    assert len(x) <= 202
    assert (x[0], x[-1], y[-1]) == (0, 599, 0)
    assert np.sum(np.diff(x) * y[:-1]) == pytest.approx(300)
    assert y.max() <= 1


def test_policies_share_a_picture(compared):
    jobs, coflows = timeline(compared.results)
    assert points(jobs) == points(coflows)
    assert points(jobs)["maxmin"] == [pytest.approx(point) for point in
                                      ([0, 3], [3, 2], [5, 1], [9, 0])]
    assert texts(jobs.get_legend().get_texts()) == ["maxmin", "sebf"]
    assert coflows.get_legend() is None
    assert (jobs.get_xlabel(), coflows.get_xlabel()) == ("", "time (s)")


def test_a_timeline_marks_decisions_where_there_are_any():
    result = netsim.simulate(NET, one_port(1, 2), allocator="fifo",
                             record=["coflows", "decisions"])
    jobs, coflows, marks = timeline({"fifo": result})
    assert jobs.get_legend() is None
    assert [path[0][0] for path in marks.collections[0].get_segments()] == (
        result.decisions["time_s"].tolist())
    assert coflows.get_ylabel() == "active coflows"
    assert len(timeline({"a": netsim.simulate(NET, one_port(1), record=["jobs"])})) == 1
    assert len(timeline({"a": result, "b": result})) == 2


def test_marks_on_one_spot_are_one():
    result = netsim.simulate(NET, one_port(1), record=["decisions"])
    many = type(result)(result.jobs, None, None, None,
                        pd.DataFrame({"time_s": np.linspace(0, 1, 100_000)}), result.run)
    assert len(decision_marks(many).collections[0].get_segments()) == 2000


def test_what_cannot_be_drawn_over_time(compared):
    bare = netsim.simulate(NET, one_port(1), record=["jobs"])
    with pytest.raises(UnknownNameError, match=r"unknown curve 'flows'.*: coflows, jobs"):
        active_curves(compared.results, "flows")
    with pytest.raises(InputError, match="coflows were not recorded"):
        active_curves({"a": bare}, "coflows")
    with pytest.raises(InputError, match="decisions were not recorded"):
        decision_marks(bare)
    with pytest.raises(InputError, match="nothing to draw"):
        timeline({})


def test_an_axes_may_be_given(compared):
    for draw in (cdf_curves, active_curves):
        ax = style.new_axes(2.0)
        assert draw(compared.results, ax=ax) is ax


def test_without_matplotlib(compared, monkeypatch):
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    for draw in (cdf_curves, active_curves, timeline):
        with pytest.raises(MissingExtraError, match=r"matplotlib is not installed.*\[plot\]"):
            draw(compared.results)


def test_times_that_are_equal_to_rounding_are_drawn_on_one_spot():
    """60 ms and less than 1e-15 s around it: the labels differ, and the curves are upright."""
    ax = cdf_curves({"fifo": [0.06 - 4e-16, 0.06, 0.06 + 5e-16], "sebf": [0.06] * 3})
    assert texts(ax.get_xticklabels()) == ["59.8 ms", "60 ms", "60.2 ms"]
    left, right = ax.transAxes.inverted().transform(
        ax.transData.transform([(0.06 - 4e-16, 0.5), (0.06 + 5e-16, 0.5)]))[:, 0]
    assert right - left < 1e-6
    assert left == pytest.approx(0.5)


def test_panels_that_share_an_axis_may_widen_it_after_equal_times():
    """Times of the first are all 1 s; those of the second go up to 4 s."""
    first, second = style.new_figure(2).subplots(1, 2, sharex=True)
    cdf_curves({"fifo": [1.0, 1.0]}, ax=first)
    cdf_curves({"fifo": [1.0, 4.0]}, ax=second)
    assert first.get_xlim()[1] > 4


@pytest.mark.parametrize(("days", "labels"), [
    ([21, 84], ["20 d", "50 d"]), ([46, 600], ["50 d", "100 d", "200 d", "500 d"]),
    ([25, 45], ["30 d", "40 d"]),
    ([0.045, 0.048], ["1.08 h", "1.1 h", "1.12 h", "1.14 h"])])
def test_ticks_of_long_times_are_round_in_their_unit(days, labels):
    """Between 25 d and 45 d there is no decade, and no 1, 2 or 5 of one."""
    ax = cdf_curves({"fifo": [86400 * each for each in days]})
    assert texts(ax.get_xticklabels()) == labels


def test_a_time_has_one_unit_on_both_kinds_of_axes():
    """7.2e6 s: days on an axis of time, as on that of a distribution."""
    assert style.unit_of(7.2e6)[0] == style.duration(7.2e6).split()[1] == "d"


def test_timelines_say_that_they_show_means():
    """A job has 2 changes: 200 jobs at different times are drawn exactly, 201 as means."""
    def result(count):
        jobs = [JobSpec(k, stages=[Stage("", [(0, 1, 1.0)])], hosts=[0, 1], arrival_s=float(k))
                for k in range(count)]
        return netsim.simulate(netsim.big_switch(2, 2.0), jobs, record=["jobs"])

    note = "curves of more than 400 changes: means over 200 intervals"
    few, many = result(200), result(201)
    said = [timeline({"x": each})[0].figure.get_supxlabel().replace("\n", " ")
            for each in (few, many)]
    assert said == ["", note]
    ax = active_curves({"x": many}, ax=style.new_axes(2.0))
    assert ax.texts[-1].get_text().replace("\n", " ") == note
    assert active_curves({"x": few}, ax=style.new_axes(2.0)).texts[:] == []
