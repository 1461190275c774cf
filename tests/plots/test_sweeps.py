"""Pictures of sweeps: what is drawn, not how it looks."""

import itertools

import numpy as np
import pandas as pd
import pytest

from netsim.errors import InputError, MissingExtraError, UnknownNameError
from netsim.plots import style
from netsim.plots.facets import bar_facets, line_facets
from netsim.plots.means import interval_note, long_form

pytestmark = pytest.mark.usefixtures("matplotlib")

PARROT, WITHOUT = "parrot", "parrot (work_conservation=none)"


def means(_first=2.0, **varied):
    """A table of means: 2, 3, 4, ... and intervals of half of 1 below and 1 above."""
    keys = {key.replace("__", "."): values for key, values in varied.items()}
    rows = []
    for number, values in enumerate(itertools.product(*keys.values())):
        mean = _first + number
        rows.append(dict(zip(keys, values, strict=True)) | {
            "runs": 3, "over_lower_bound": mean, "over_lower_bound_low": mean - 0.5,
            "over_lower_bound_high": mean + 1, "jct_mean_s": 10 * mean,
            "jct_mean_s_low": 10 * mean - 5, "jct_mean_s_high": 10 * mean + 10})
    return pd.DataFrame(rows)


def lines(ax):
    return {line.get_label(): line.get_xydata().tolist() for line in ax.get_lines()
            if not line.get_label().startswith("_")}


def intervals(ax):
    """Return (place, low, high) of each interval."""
    return [(segment[0][0], segment[0][1], segment[1][1])
            for container in ax.containers for bars in container.lines[2]
            for segment in bars.get_segments() if len(segment)]


def texts(items):
    return [item.get_text() for item in items]


# --- lines ---------------------------------------------------------------------------------


def test_quantities_far_apart_stand_on_a_logarithmic_axis():
    table = means(network__capacity=["100Gbps", "10Gbps", "40Gbps"], allocator=[PARROT, "lccf"])
    ax = line_facets(table, x="network.capacity")
    assert lines(ax) == {"parrot": [[1.25e9, 4], [5e9, 6], [12.5e9, 2]],
                         "lccf": [[1.25e9, 5], [5e9, 7], [12.5e9, 3]]}
    assert ax.get_xscale() == "log"
    assert ax.get_xticks().tolist() == [1.25e9, 5e9, 12.5e9]
    assert texts(ax.get_xticklabels()) == ["10", "40", "100"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("link speed (Gbps)", "total JCT / lower bound")
    assert intervals(ax)[:2] == [(1.25e9, 3.5, 5), (5e9, 5.5, 7)]
    assert texts(ax.get_legend().get_texts()) == ["parrot", "lccf"]


@pytest.mark.parametrize(("length", "shift_pt"), [(0.1, 0), (3, 1.5)])
def test_points_of_numbers_stand_where_the_axis_says_unless_whiskers_meet(length, shift_pt):
    """Values are 2, 3, 4, ...: whiskers meet if they are longer than 1."""
    table = means(n=[1, 10], allocator=["a", "b", "c"])
    ax = line_facets(table.assign(over_lower_bound_low=table["over_lower_bound"] - length / 2,
                                  over_lower_bound_high=table["over_lower_bound"] + length / 2))
    drawn = [line for line in ax.get_lines() if not line.get_label().startswith("_")]
    pixels = [line.get_transform().transform((10, 3))[0] for line in drawn]
    offsets_pt = (np.array(pixels) - ax.transData.transform((10, 3))[0]) * 72 / ax.figure.dpi
    assert offsets_pt.tolist() == pytest.approx([-shift_pt, 0, shift_pt])


def test_numbers_near_each_other_stand_on_a_linear_axis():
    ax = line_facets(means(allocator__theta_max=[0.5, 0.9, 0.6], allocator=["parrot"]))
    assert lines(ax) == {"parrot": [[0.5, 2], [0.6, 4], [0.9, 3]]}
    assert ax.get_xscale() == "linear"
    assert texts(ax.get_xticklabels()) == ["0.5", "0.6", "0.9"]
    assert ax.get_xlabel() == "theta max"


def test_zero_beside_numbers_far_apart():
    table = means(observe_interval=[0, "1s", "1ms", "10ms"])
    ax = line_facets(table)
    data = ax.get_lines()[0].get_xydata().tolist()
    assert data == [[0, 2], [1, 4], [2, 5], [3, 3]]
    assert texts(ax.get_xticklabels()) == ["0", "1 ms", "10 ms", "1 s"]
    assert ax.get_lines()[0].get_linestyle() == "-"
    linear = line_facets(table, scale="linear").get_lines()[0].get_xdata()
    assert linear.tolist() == [0, 0.001, 0.01, 1]
    with pytest.raises(InputError, match="observe_interval has no log scale: it has the value 0"):
        line_facets(table, scale="log")


def test_names_stand_side_by_side_and_are_not_joined():
    table = means(network__name=["leaf-spine", "big-switch"], allocator=["a", "b"])
    ax = line_facets(table, scale="categories")
    assert lines(ax) == {"a": [[-0.1, 2], [0.9, 4]], "b": [[0.1, 3], [1.1, 5]]}
    assert {line.get_linestyle() for line in ax.get_lines()[:1]} == {"None"}
    assert texts(ax.get_xticklabels()) == ["leaf-spine", "big-switch"]
    assert ax.get_xticks().tolist() == [0, 1]
    with pytest.raises(InputError, match=r"network\.name has no log scale: not all .*: 'leaf-sp"):
        line_facets(table, scale="log")


@pytest.mark.parametrize(("values", "places"), [
    (["10MB", "20MB"], [1e7, 2e7]), (["10Gbps", "20s"], [0, 1]), ([True, False], [0, 1]),
    ([1, "x"], [0, 1]), ([2, 1], [1, 2]), (["2", "1"], [1, 2]), (["nan", "1"], [0, 1]),
    ([5], [5])])
def test_where_values_stand(values, places):
    ax = line_facets(means(key=values))
    assert ax.get_lines()[0].get_xdata().tolist() == places


def test_there_is_a_line_for_all_other_keys():
    table = means(allocator=[PARROT, WITHOUT], n=[1, 2], k=[4, 8])
    ax = line_facets(table, x="k", ax=style.new_axes(2.0))
    assert lines(ax) == {
        "parrot, n 1": [[4, 2], [8, 3]], "parrot, n 2": [[4, 4], [8, 5]],
        "parrot\n(no WC),\nn 1": [[4, 6], [8, 7]], "parrot\n(no WC),\nn 2": [[4, 8], [8, 9]]}
    one = line_facets(table[table["n"] == 1], x="k")
    assert list(lines(one)) == ["parrot", "parrot (no WC)"]
    with pytest.raises(InputError, match="col would need several panels, and ax is one"):
        line_facets(table, x="k", ax=style.new_axes(2.0), col="n")
    with pytest.raises(InputError, match="m varied too, for which the plot has no place"):
        line_facets(means(allocator=["a"], n=[1, 2], k=[4, 8], m=[1, 2]), x="k",
                    ax=style.new_axes(2.0))


def test_any_metric_can_be_drawn():
    ax = line_facets(means(n=[1, 2], allocator=["a", "b"]), y="jct_mean_s")
    assert lines(ax)["a"] == [[1, 20], [2, 40]]
    assert ax.get_ylabel() == "mean JCT (s)"
    assert ax.get_ylim()[0] == 0
    wide = means(0.5, n=list(range(1, 10)), allocator=["a", "b"])
    ax = line_facets(wide, y="jct_mean_s")
    assert ax.get_yscale() == "linear"  # an interval from 0 has no place on a logarithmic one
    ax = line_facets(wide.drop(columns=["jct_mean_s_low", "jct_mean_s_high"]), y="jct_mean_s")
    assert (ax.get_yscale(), ax.get_ylabel(), intervals(ax)) == ("log", "mean JCT", [])
    assert texts(ax.get_yticklabels())[-1] == "2 min"


def test_of_many_points_a_band_is_drawn():
    ax = line_facets(means(n=list(range(1, 9)) + list(range(10, 16))), scale="linear")
    assert intervals(ax) == []
    vertices = ax.collections[0].get_paths()[0].vertices
    assert (vertices[:, 1].min(), vertices[:, 1].max()) == (1.5, 16)
    shown = texts(ax.get_xticklabels())
    assert shown == ["5", "10", "15"]


def test_unknown_intervals_are_not_drawn():
    table = means(n=[1, 2])
    table.loc[0, ["over_lower_bound_low", "over_lower_bound_high"]] = np.nan
    assert intervals(line_facets(table)) == [(2, 2.5, 4)]
    table.loc[0, "over_lower_bound"] = np.nan
    assert line_facets(table).get_lines()[0].get_xdata().tolist() == [2]


def test_labels_that_do_not_fit():
    names = [f"a-long-name-{number}" for number in range(8)]
    ax = line_facets(means(allocator=names), x="allocator")
    assert texts(ax.get_xticklabels()) == names
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {30}
    numbers = line_facets(means(n=[100_000 + number for number in range(40)]))
    assert 1 < len(numbers.get_xticklabels()) < 20


# --- bars ----------------------------------------------------------------------------------


def bars(ax):
    return [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches]


def whiskers(ax):
    return [(segment[0][0], segment[1][0]) for container in ax.containers
            if hasattr(container, "has_xerr") for each in container.lines[2]
            for segment in each.get_segments()]


def test_a_bar_and_an_interval_per_policy():
    ax = bar_facets(means(allocator=[PARROT, WITHOUT, "lccf"]))
    assert bars(ax) == [(1, 2), (1, 3), (1, 4)]
    assert whiskers(ax) == [(1.5, 3), (2.5, 4), (3.5, 5)]
    assert texts(ax.get_yticklabels()) == ["parrot", "lccf"]
    assert texts(ax.texts) == ["2.00", "3.00", "4.00"]
    assert [text.xy[0] for text in ax.texts] == [3, 4, 5]
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "total JCT / lower bound (log scale, 1 = alone)"
    assert texts(ax.get_legend().get_texts()) == ["with work conservation", "without"]


def test_other_metrics_stand_from_zero():
    ax = bar_facets(means(allocator=[PARROT, "lccf"]), "jct_mean_s")
    assert bars(ax) == [(0, 20), (0, 30)]
    assert (ax.get_xscale(), ax.get_xlim()[0], ax.get_xlabel()) == ("linear", 0, "mean JCT (s)")


def test_more_policies_than_colours_have_hatches():
    """The eleventh has the colour of the first, and strokes."""
    patches = bar_facets(means(allocator=[f"a{number}" for number in range(11)])).patches
    assert patches[10].get_facecolor() == patches[0].get_facecolor()
    assert [bool(patch.get_hatch()) for patch in patches] == [False] * 10 + [True]


@pytest.mark.parametrize("draw", [bar_facets, line_facets])
def test_whiskers_below_1_are_not_cut(draw):
    """An interval may go below the bound, from which the axis begins otherwise."""
    for low in (1.2, 0.8):
        table = means(network__capacity=["10Gbps", "40Gbps"], n=[1, 2, 3], allocator=["a", "b"])
        table.loc[0, "over_lower_bound_low"] = low
        for ax in draw(table, col="network.capacity").figure.axes:
            begin = (ax.get_xlim if draw is bar_facets else ax.get_ylim)()[0]
            assert begin == 1 if low > 1 else begin < 0.8


def test_what_else_varied_has_panels():
    ax = bar_facets(means(network__capacity=["10Gbps", "40Gbps"], allocator=[PARROT, "lccf"]))
    assert [bars(each) for each in ax.figure.axes] == [[(1, 2), (1, 3)], [(1, 4), (1, 5)]]
    assert texts(bar_facets(means(n=[1, 2])).get_yticklabels()) == ["n 1", "n 2"]


# --- both ----------------------------------------------------------------------------------


def test_what_cannot_be_drawn():
    table = means(n=[1, 2], allocator=["a", "b"])
    for draw, wrong, message in (
            (line_facets, {"x": "m"}, "unknown varied key 'm'; choose from: allocator, n"),
            (line_facets, {"hue": "m"}, "unknown varied key 'm'"),
            (line_facets, {"y": "jct"}, r"unknown metric 'jct'.*: jct_mean_s, over_lower_bound"),
            (bar_facets, {"y": "runs"}, "unknown metric 'runs'"),
            (line_facets, {"scale": "logs"}, r"unknown scale 'logs' \(did you mean 'log'")):
        with pytest.raises(UnknownNameError, match=message):
            draw(table, **wrong)
    for draw in (line_facets, bar_facets):
        with pytest.raises(InputError, match="no column 'runs', but 'n', 'seed'"):
            draw(pd.DataFrame({"n": [1], "seed": [0]}))
        with pytest.raises(InputError, match="nothing to draw: no row has over_lower_bound"):
            draw(table.assign(over_lower_bound=np.nan))
    with pytest.raises(InputError, match="nothing but the allocator was varied: draw bars"):
        line_facets(means(allocator=["a", "b"]))


def test_settings_may_have_the_names_of_what_is_drawn():
    table = means(value=[1, 2], label=["a", "b"])
    assert lines(line_facets(table)) == {"a": [[1, 2], [2, 4]], "b": [[1, 3], [2, 5]]}
    assert [bars(ax) for ax in bar_facets(table, hue="label").figure.axes] == [
        [(1, 2), (1, 3)], [(1, 4), (1, 5)]]


def test_an_axes_may_be_given():
    for draw in (line_facets, bar_facets):
        ax = style.new_axes(2.0)
        assert draw(means(n=[1, 2]), ax=ax) is ax


def test_without_matplotlib(monkeypatch):
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    for draw in (line_facets, bar_facets):
        with pytest.raises(MissingExtraError, match=r"matplotlib is not installed.*\[plot\]"):
            draw(means(n=[1, 2]))


def test_a_note_says_that_all_seeds_give_the_same():
    """Intervals without width would pass for certainty."""
    table = means(observe_interval=[1e-3, 1e-2], allocator=[PARROT])
    same = table.assign(over_lower_bound_low=table["over_lower_bound"],
                        over_lower_bound_high=table["over_lower_bound"] + 1e-15)
    notes = [interval_note(long_form(each, "over_lower_bound", runs=each["runs"]),
                           "over_lower_bound") for each in (same, table)]
    assert notes[0] == "all 3 seeds give the same"
    assert notes[1].startswith("whiskers: 95 %")


def test_the_lines_of_a_note_are_about_as_long():
    """As long as they can be, the first would have 53 letters and the second 16."""
    ax = style.new_axes(1)
    style.add_note_to(ax, "whiskers: 95 % confidence intervals of the geometric mean over 4 seeds")
    first, second = next(filter(None, (each.get_text() for each in ax.texts))).split("\n")
    assert abs(len(first) - len(second)) < 10


@pytest.mark.parametrize("ends", [(0.7, 1.24), (0.55, 1.3), (0.93, 1.06), (0.8, 1.9)])
def test_a_narrow_axis_of_ratios_has_a_tick_at_one(ends):
    ax = style.new_axes(1)
    ax.set(xscale="log", xlim=ends)
    style.log_values(ax.xaxis)
    assert np.isclose(ax.get_xticks(), 1).any()


@pytest.mark.parametrize("ends", [(0.93, 1.06), (0.9, 2.6), (0.9, 4.9), (0.03, 8), (0.5, 60),
                                  (0.03, 40), (1, 1e5)])
def test_a_logarithmic_axis_has_at_least_three_labels_and_not_too_many(ends):
    ax = style.new_axes(1)
    ax.set(xscale="log", xlim=ends)
    style.log_values(ax.xaxis)
    within = [tick for tick in ax.get_xticks() if ends[0] <= tick <= ends[1]]
    assert 3 <= len(within) <= 8
