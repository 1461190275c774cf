"""Pictures of coflows and links: what is drawn, not how it looks."""

import math
import re

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.analysis import style
from netsim.analysis.coflow_plots import cct_curves, improvement_bars, link_strips
from netsim.analysis.pictures import PICTURES, check_picture
from netsim.analysis.plots import save_plot
from netsim.errors import InputError, MissingExtraError, UnknownNameError

pytest.importorskip("matplotlib")

MB = 1e6
NET = netsim.big_switch(3, MB)
RECORD = ["jobs", "coflows", "links"]


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


# --- curves --------------------------------------------------------------------------------


def test_curves_rise_at_each_cct(compared):
    ax = cct_curves(compared.results)
    curves = {line.get_label(): line.get_xydata().tolist() for line in ax.get_lines()}
    thirds = [0, 1 / 3, 2 / 3, 1]
    for label, times in {"alone": (1, 2, 6), "maxmin": (3, 5, 9), "sebf": (1, 3, 9)}.items():
        assert curves[label] == [pytest.approx(point) for point
                                 in zip((times[0], *times), thirds, strict=True)]
    assert ax.get_xscale() == "log"
    assert texts(ax.get_legend().get_texts()) == ["alone", "maxmin", "sebf"]


def test_curves_begin_above_coflows_that_took_no_time():
    ax = cct_curves(netsim.compare(NET, one_port(0, 0, 2), ["maxmin"]).results)
    for line in ax.get_lines():
        assert line.get_xydata().tolist() == [[2, pytest.approx(2 / 3)], [2, 1]]


def test_coflows_without_bytes_take_no_time_alone():
    """Held by another they may take some."""
    stages = [Stage("a", [(0, 1, 2 * MB)]), Stage("b", [(0, 1, 0)], finishes_before=["a"])]
    result = netsim.simulate(NET, Workload([JobSpec(0, stages=stages, hosts=range(3))]))
    held = type(result)(result.jobs, result.coflows[result.coflows["stage"] == "b"], None, None,
                        None, result.run)
    assert [line.get_label() for line in cct_curves({"held": held}).get_lines()] == ["held"]


def test_many_coflows_make_a_curve_of_few_points():
    """Of 5,000 coflows that each take 1 ms longer than the one before."""
    result = netsim.simulate(NET, one_port(1))
    coflows = pd.concat([result.coflows] * 5000, ignore_index=True)
    coflows["cct_s"] = np.arange(1, 5001) / 1000
    many = type(result)(result.jobs, coflows, None, None, None, result.run)
    x, y = cct_curves({"many": many}).get_lines()[1].get_data()
    assert len(x) < 1100
    np.testing.assert_allclose(y[1:], x[1:] / 5, rtol=1e-12)
    assert (x[1], x[-1]) == (0.001, 5)


def test_lines_differ_where_colours_repeat(compared):
    ax = cct_curves({f"run {number}": compared.results["sebf"] for number in range(14)})
    looks = {(line.get_color(), str(line.get_linestyle()), line.get_linewidth(),
              str(line._dash_pattern)) for line in ax.get_lines()}
    assert len(looks) == 15


# --- bars ----------------------------------------------------------------------------------


def test_bars_stand_from_one_and_marks_where_nothing_waits(compared):
    """Means: short narrow (3 + 5)/2 over (1 + 3)/2, long narrow 9 over 9, all 17 over 13."""
    ax = improvement_bars(compared.against("maxmin"))
    ends = [patch.get_x() + patch.get_width() for patch in ax.patches]
    assert {patch.get_x() for patch in ax.patches} == {1}
    assert ends == pytest.approx([2, 1, 17 / 13])
    assert texts(ax.texts) == ["2", "1", "1.31"]
    assert texts(ax.get_yticklabels()) == ["short narrow\n2 coflows", "long narrow\n1 coflows",
                                           "all\n3 coflows"]
    marks = [line.get_xdata()[0] for line in ax.get_lines()]
    assert marks == pytest.approx([8 / 3, 9 / 6, 17 / 9, 1])
    assert ax.get_xlim()[1] > 8 / 3
    assert texts(ax.get_legend().get_texts()) == ["sebf", "every coflow alone"]


def test_what_is_worse_goes_left(compared):
    ax = improvement_bars(compared.against("sebf"))
    widths = [patch.get_width() for patch in ax.patches]
    assert widths == pytest.approx([-1 / 2, 0, 13 / 17 - 1])
    assert ax.get_xlim()[0] < 1 / 2


def test_policies_stand_one_under_the_other():
    compared = netsim.compare(NET, one_port(1, 2), ["maxmin", "sebf", "fifo", "aalo"])
    ax = improvement_bars(compared.against())
    y = [patch.get_y() for patch in ax.patches]
    assert y == sorted(y)
    assert np.diff(y).tolist() == pytest.approx([1, 1, 1.8, 1, 1])
    assert len({patch.get_facecolor() for patch in ax.patches}) == 3
    low, high = ax.get_ylim()
    assert low > y[-1] + 0.84
    assert high < y[0]


# --- strips --------------------------------------------------------------------------------


def test_strips_show_utilisation_over_time(compared):
    """Egress 0 and ingress 1 are full for 9 s, under both policies."""
    strips = link_strips(compared.results)
    assert texts([ax.yaxis.label for ax in strips]) == ["maxmin", "sebf"]
    for ax in strips:
        image = ax.images[0]
        np.testing.assert_allclose(image.get_array(), np.ones((2, 700)))
        assert image.get_extent() == [0, 9, 2, 0]
    assert strips[-1].get_xlabel() == "time (s); the 2 links that carried most, of 6"


def test_a_strip_averages_what_a_pixel_spans():
    """Of 7 s, 700 pixels, 1 MB/s flows from 0 to 1, 1/2 MB/s from 2.005 to 6.005.

    Of what egress 0 carries, ingress 1 has nothing, and ingress 2 the second part.
    """
    jobs = Workload([
        JobSpec(0, stages=[Stage("c", [(0, 1, MB)])], hosts=range(3)),
        JobSpec(1, 2.005, stages=[Stage("c", [(0, 2, 2 * MB)])], hosts=range(3)),
        JobSpec(2, stages=[Stage("wait", compute_s=7)])])
    result = netsim.simulate(NET, jobs, record=RECORD,
                             events=[{"at": 1.5, "link": "ingress-2", "capacity": MB / 2}])
    top, second, third = link_strips({"a": result})[0].images[0].get_array()
    expected = np.zeros(700)
    expected[:100] = 1
    expected[200], expected[201:600], expected[600] = 0.25, 0.5, 0.25
    np.testing.assert_allclose(top, expected, atol=1e-9)
    np.testing.assert_allclose(second, np.where(np.arange(700) < 150, 0, 2 * expected), atol=1e-9)
    np.testing.assert_allclose(third, np.where(np.arange(700) < 150, expected, 0), atol=1e-9)


def test_only_the_busiest_links_are_drawn(compared):
    strips = link_strips(compared.results, links=1)
    assert strips[0].images[0].get_array().shape == (1, 700)
    assert strips[-1].get_xlabel() == "time (s); the 1 links that carried most, of 6"


# --- all of them ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PICTURES)
def test_a_comparison_draws_and_writes_each(compared, kind, tmp_path):
    check_picture(kind, RECORD)
    ax = compared.plot(kind)
    assert save_plot(ax, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_an_axes_may_be_given(compared):
    for draw, what in ((cct_curves, compared.results), (improvement_bars, compared.against())):
        ax = style.new_axes(2.0)
        assert draw(what, ax) is ax


def test_nothing_to_draw():
    stopped = netsim.compare("parrot-fig2", "parrot-fig2", ["parrot", "lccf"], until=1)
    computing = netsim.compare(NET, Workload([JobSpec(0, stages=[Stage("w", compute_s=1)])]),
                               ["maxmin"], record=RECORD)
    in_no_time = netsim.compare(NET, one_port(0), ["maxmin"])
    for kind, nothing in (("cct", stopped), ("cct", in_no_time), ("cct", computing),
                          ("classes", stopped), ("classes", computing), ("links", computing)):
        with pytest.raises(InputError, match="nothing to draw"):
            nothing.plot(kind)
    with pytest.raises(InputError, match="links were not recorded"):
        stopped.plot("links")


def test_unknown_pictures_and_missing_records(compared):
    message = re.escape("unknown picture 'class' (did you mean 'classes'?); choose from: cct, "
                        "classes, jct, links")
    with pytest.raises(UnknownNameError, match=message):
        compared.plot("class")
    with pytest.raises(UnknownNameError, match=message):
        check_picture("class", RECORD)
    message = re.escape("the picture 'links' needs links recorded: record = [\"jobs\", \"links\"]")
    with pytest.raises(InputError, match=message):
        check_picture("links", ["jobs"])
    check_picture("jct", [])


def test_without_matplotlib(compared, monkeypatch):
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    for kind in PICTURES:
        with pytest.raises(MissingExtraError, match=r"matplotlib is not installed.*\[plot\]"):
            compared.plot(kind)
    assert math.isfinite(compared.table["jct_total_s"][0])
