"""Pictures of coflows: what is drawn, not how it looks."""

import numpy as np
import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.errors import InputError, MissingExtraError
from netsim.plots import style
from netsim.plots.coflows import ratio_bars, slowdown_bars

pytestmark = pytest.mark.usefixtures("matplotlib")

MB = 1e6
NET = netsim.big_switch(3, MB)
RECORD = ["jobs", "coflows"]


def one_port(*sizes):
    """Jobs of one coflow each, of so many MB, all through one port of 1 MB/s from time 0."""
    return Workload([JobSpec(job, stages=[Stage("c", [(0, 1, size * MB)])], hosts=range(3))
                     for job, size in enumerate(sizes)])


@pytest.fixture(scope="module")
def compared():
    """1, 2 and 6 MB on one port end, shared fairly, at 3, 5 and 9 s; smallest first, at 1, 3, 9."""
    return netsim.compare(NET, one_port(1, 2, 6), ["maxmin", "sebf"], record=RECORD)


def texts(items):
    return [item.get_text() for item in items]


# --- bars ----------------------------------------------------------------------------------


def test_bars_stand_from_one_and_marks_where_nothing_waits(compared):
    """Means: short narrow (1 + 3)/2 over (3 + 5)/2, long narrow 9 over 9, all 13 over 17."""
    ax = ratio_bars(compared.against("maxmin"))
    ends = [patch.get_x() + patch.get_width() for patch in ax.patches]
    assert {patch.get_x() for patch in ax.patches} == {1}
    assert ends == pytest.approx([1 / 2, 1, 13 / 17])
    assert texts(ax.texts) == ["0.500", "1.00", "0.765"]
    assert texts(ax.get_yticklabels()) == ["short narrow\n2 coflows", "long narrow\n1 coflow",
                                           "all\n3 coflows"]
    marks = [line.get_xdata()[0] for line in ax.get_lines()]
    assert marks == pytest.approx([1, 3 / 8, 6 / 9, 9 / 17])
    assert ax.get_xlim()[0] < 3 / 8
    ax.figure.draw_without_rendering()  # values are beside the axes, where no bar or mark is
    assert all(text.get_window_extent().x0 > ax.get_window_extent().x1 for text in ax.texts)
    assert ax.get_xlabel() == "mean CCT / that of maxmin (log scale)"
    assert texts(ax.get_legend().get_texts()) == ["sebf", "every coflow alone"]


def test_what_is_worse_goes_right(compared):
    ax = ratio_bars(compared.against("sebf"))
    widths = [patch.get_width() for patch in ax.patches]
    assert widths == pytest.approx([1, 0, 17 / 13 - 1])
    assert ax.get_xlim()[1] > 2


def test_policies_stand_one_under_the_other():
    compared = netsim.compare(NET, one_port(1, 2), ["maxmin", "sebf", "fifo", "aalo"])
    ax = ratio_bars(compared.against())
    y = [patch.get_y() for patch in ax.patches]
    assert y == sorted(y)
    assert np.diff(y).tolist() == pytest.approx([1, 1, 1.8, 1, 1])
    assert len({patch.get_facecolor() for patch in ax.patches}) == 3
    low, high = ax.get_ylim()
    assert low > y[-1] + 0.84
    assert high < y[0]


# --- slowdowns -----------------------------------------------------------------------------


def test_slowdowns_by_class(compared):
    """Of 3, 5 and 9 s for 1, 2 and 6 s alone; smallest first, of 1, 3 and 9 s."""
    ax = slowdown_bars(compared.results)
    ends = {(round(patch.get_y() + 0.42, 6)): patch.get_x() + patch.get_width()
            for patch in ax.patches}
    assert {patch.get_x() for patch in ax.patches} == {1}
    assert [ends[y] for y in sorted(ends)] == pytest.approx([
        (3 + 2.5) / 2, (1 + 1.5) / 2, 1.5, 1.5, (3 + 2.5 + 1.5) / 3, (1 + 1.5 + 1.5) / 3])
    assert texts(ax.get_yticklabels()) == ["short narrow\n2 coflows", "long narrow\n1 coflow",
                                           "all\n3 coflows"]
    assert texts(ax.texts)[0] == "2.75"
    assert texts(ax.texts)[-1] == "mean"
    ax.figure.draw_without_rendering()  # not at the end of the lines, which are no means
    assert all(text.get_window_extent().x0 > ax.get_window_extent().x1 for text in ax.texts)
    assert ax.get_xscale() == "log"
    assert texts(ax.get_legend().get_texts()) == ["maxmin", "sebf", "to the 95th percentile"]


def test_lines_lead_to_the_95th_percentile(compared):
    lines = [line.get_xdata() for line in slowdown_bars(compared.results).get_lines()]
    means = [pair for pair in lines if len(pair) == 2 and list(pair) != [1, 1]]
    assert means[0] == pytest.approx([2.75, 2.5 + 0.95 * 0.5])


def test_thresholds_and_axes_may_be_given(compared):
    ax = style.new_axes(2.0)
    assert slowdown_bars(compared.results, ax, short="10MB") is ax
    assert texts(ax.get_yticklabels()) == ["short narrow\n3 coflows", "all\n3 coflows"]
    assert ratio_bars(compared.against(), ax) is ax


def test_no_slowdowns_to_draw():
    stopped = netsim.simulate("parrot-fig2", "parrot-fig2", until=1)
    for nothing in ({}, {"a": stopped}, {"a": netsim.simulate(NET, one_port(0))}):
        with pytest.raises(InputError, match="nothing to draw"):
            slowdown_bars(nothing)
    bare = netsim.simulate(NET, one_port(1), record=["jobs"])
    with pytest.raises(InputError, match=r"coflows were not recorded.*record="):
        slowdown_bars({"a": bare})


def test_without_matplotlib(compared, monkeypatch):
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    for draw in (slowdown_bars, lambda _: ratio_bars(compared.against())):
        with pytest.raises(MissingExtraError, match=r"matplotlib is not installed.*\[plot\]"):
            draw(compared.results)
