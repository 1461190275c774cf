"""Figures of several settings: a panel per value, the same axes, the same colour of a policy."""

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim.cli.main import main
from netsim.errors import InputError, UnknownNameError
from netsim.plots import style
from netsim.plots.facets import bar_facets, line_facets, scatter_facets
from netsim.plots.varied import roles_of, titled, words
from tests.pairs import but, few

pytestmark = pytest.mark.usefixtures("matplotlib")

SPEEDS, INTERVALS, POLICIES = (["10Gbps", "40Gbps", "100Gbps"], ["1ms", "10ms"],
                               ["parrot", "lccf", "sebf"])
AALO = "aalo (queues=5, first_threshold=1MB)"


def means(runs=5, **varied):
    """A means table in which the mean of each row is 2, 3, 4, ..."""
    keys = {key.replace("__", "."): values for key, values in varied.items()}
    rows = [dict(zip(keys, values, strict=True)) | {
        "runs": runs, "over_lower_bound": 2.0 + number, "over_lower_bound_low": 1.9 + number,
        "over_lower_bound_high": 2.2 + number, "jct_mean_s": 123456789.0 + 1e6 * number}
        for number, values in enumerate(itertools.product(*keys.values()))]
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def table():
    return means(network__capacity=SPEEDS, observe_interval=INTERVALS, allocator=POLICIES)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return netsim.sweep(
        {"slow": netsim.big_switch(3, 1e6), "fast": netsim.big_switch(3, 4e6)},
        {"few": jobs(3), "many": jobs(5)}, allocator=["fifo", "sebf", "maxmin"],
        folder=tmp_path_factory.mktemp("sweeps") / "facets", progress=False)


def jobs(count):
    return netsim.Workload([
        netsim.JobSpec(job, stages=[netsim.Stage("c", [(0, 1, 1e6 * (1 + job % 3))])],
                       hosts=range(3)) for job in range(count)])


def colours(ax):
    """The colour of each line, or of each bar by the name beside it."""
    lines = {line.get_label(): line.get_color() for line in labelled(ax)}
    if lines:
        return lines
    names = {round(float(tick), 6): ax.yaxis.get_major_formatter()(tick, place)
             for place, tick in enumerate(ax.get_yticks())}
    return {names[round(bar.get_y() + bar.get_height() / 2, 6)]: colour_of(bar)
            for bar in ax.patches}


def colour_of(bar):
    from matplotlib.colors import to_hex

    return to_hex(bar.get_facecolor()).upper()


def texts_in(figure):
    from matplotlib.text import Text

    return figure.findobj(Text)


def labelled(ax):
    return [line for line in ax.get_lines() if not line.get_label().startswith("_")]


def titles(ax):
    return [each.get_title(loc="left") for each in ax.figure.axes]


def test_a_panel_for_each_value_of_the_third_setting(table):
    ax = line_facets(table)
    assert titles(ax) == ["observe interval 1 ms", "observe interval 10 ms"]
    first, second = ax.figure.axes
    assert list(colours(first)) == POLICIES == list(colours(second))
    # Rows of the table go by speed, interval and policy: 2, 3, 4 are those of 10 Gbps and 1 ms.
    assert [line.get_ydata().tolist() for line in labelled(second)] == [
        [5, 11, 17], [6, 12, 18], [7, 13, 19]]
    assert (first.get_xlabel(), second.get_ylabel()) == ("link speed (Gbps)", "")
    assert (first.get_xlim(), first.get_ylim()) == (second.get_xlim(), second.get_ylim())


def test_roles_can_be_chosen(table):
    ax = line_facets(table, x="observe_interval", col="allocator")
    assert titles(ax) == POLICIES
    assert list(colours(ax)) == SPEEDS
    assert [each.get_xlabel() for each in ax.figure.axes] == ["", "observe interval (ms)", ""]
    dashed = line_facets(table, style="observe_interval")
    assert len(dashed.figure.axes) == 1
    assert len({str(line.get_linestyle()) for line in labelled(dashed)}) == 2
    legend = [text.get_text() for text in dashed.get_legend().get_texts()]
    assert legend == [*POLICIES, "observe interval\n1 ms", "observe interval\n10 ms"] or (
        legend == [*POLICIES, "observe interval 1 ms", "observe interval 10 ms"])


def test_rows_and_columns_have_their_titles_once():
    four = means(network__capacity=SPEEDS, observe_interval=INTERVALS, allocator=POLICIES,
                 jobs=[5, 10])
    axes = line_facets(four).figure.axes
    assert [ax.get_title(loc="left") for ax in axes] == [
        "observe interval 1 ms", "observe interval 10 ms", "", ""]
    beside = [[text.get_text() for text in ax.texts] for ax in axes]
    assert beside == [[], ["jobs 5"], [], ["jobs 10"]]
    assert len({(ax.get_xlim(), ax.get_ylim()) for ax in axes}) == 1


@pytest.mark.parametrize(("speeds", "across"), [(3, 1), (2, 0)])
def test_axes_that_panels_share_have_their_name_once_and_in_the_middle(speeds, across):
    ax = bar_facets(means(network__capacity=SPEEDS[:speeds], observe_interval=INTERVALS,
                          allocator=POLICIES), "jct_mean_s")
    figure = ax.figure
    figure.draw_without_rendering()
    names = {k: each.get_xlabel() for k, each in enumerate(figure.axes) if each.get_xlabel()}
    assert names == {speeds + across: "mean JCT (d)"}
    label = figure.axes[speeds + across].xaxis.label.get_window_extent()
    ends = figure.axes[0].bbox.x0, figure.axes[-1].bbox.x1
    assert (label.x0 + label.x1) / 2 == pytest.approx(sum(ends) / 2, abs=0.02 * ends[1])


@pytest.mark.parametrize(("where", "name"), [
    ({}, "bars"), ({"n": [1, 2]}, "sweep"), ({"n": [1]}, "bars"), ({"network": SPEEDS}, "sweep"),
    ({"workload": ["few", "many", "most"], "n": [1, 2]}, "sweep")])
def test_by_default_lines_show_numbers_and_bars_names(where, name, found):
    table = means(**where, allocator=["a", "b"])
    drawn = netsim.plots.pictures.default_kind(
        dataclasses.replace(found, table=table, columns=(*where, "allocator")), "sweep")
    assert drawn == name
    if "workload" in where:  # has more values, but no numbers
        assert line_facets(table).figure.axes[1].get_xlabel() == "n"


def test_axes_are_wide_enough_for_all_panels(table):
    """The mean of each row is larger than that before: the last panel has the largest."""
    for ax in line_facets(table, x="observe_interval", col="network.capacity").figure.axes:
        low, high = ax.get_ylim()
        assert low <= table["over_lower_bound_low"].min()
        assert high >= table["over_lower_bound_high"].max()


def points(*pairs):
    """A means table of points of two ranges under two policies."""
    return pd.concat([means(observe_interval=[interval], network__capacity=[speed],
                            allocator=["sebf", "aalo"]) for interval, speed in pairs])


POINTS = (("1 ms", "8.83 Gbps"), ("100 ms", "16 Gbps"), ("1 s", "30.5 Gbps"))


def test_a_panel_of_one_point_is_drawn_without_a_warning(recwarn):
    """Points of two ranges: no two have a value in common."""
    assert len(line_facets(points(*POINTS), col="network.capacity").figure.axes) == 3
    assert not recwarn.list


def test_points_of_two_ranges_are_dots():
    """Intervals on a logarithmic axis, speeds on a linear one; a panel per policy."""
    figure = scatter_facets(points(*POINTS), x="network.capacity").figure
    *panels, bar = figure.axes
    assert titles(panels[0])[:2] == ["sebf", "aalo"]
    assert [panel.collections[0].get_offsets().tolist() for panel in panels] == [
        [[1.10375e9, 0.001], [2e9, 0.1], [3.8125e9, 1]]] * 2
    assert [panel.collections[0].get_array().tolist() for panel in panels] == [[2.0] * 3, [3.0] * 3]
    assert (panels[0].get_xscale(), panels[0].get_yscale()) == ("linear", "log")
    assert (panels[0].get_xlabel(), panels[0].get_ylabel()) == (
        "link speed (Gbps)", "observe interval")
    assert [label.get_text() for label in panels[0].get_xticklabels()] == ["8.83", "16", "30.5"]
    assert bar.get_ylabel() == "total JCT / lower bound"
    assert_inside(figure)


@pytest.mark.parametrize("draw", [line_facets, bar_facets])
def test_points_of_two_ranges_have_no_panel_each(draw):
    with pytest.raises(InputError, match=r"observe_interval and network\.capacity were drawn "
                                         r"together, .* 3 values, .* draw the plot 'scatter'"):
        draw(points(*POINTS))


def test_many_points_of_one_range_have_round_ticks():
    drawn = [f"{8.83 + 7.1 * k:.3f} Gbps" for k in range(13)]
    table = means(network__capacity=drawn, allocator=["sebf"])
    ax = line_facets(table)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["10", "20", "50"]
    assert ax.get_xlabel() == "link speed (Gbps)"
    with pytest.raises(InputError, match=r"capacity has 13 values, .* the plot 'sweep'"):
        bar_facets(table)
    with pytest.raises(InputError, match="nothing but the allocator and the network"):
        scatter_facets(table)


def test_more_than_two_ranges():
    """The two with the most values are the axes; what was drawn with them needs no role."""
    drawn = points(*POINTS).assign(jobs=[5, 5, 7, 7, 6, 6])
    drawn = drawn[["jobs", *(name for name in drawn if name != "jobs")]]
    ax = scatter_facets(drawn, y="network.capacity", x="observe_interval")
    assert ax.figure.get_supxlabel().endswith("; jobs drawn too")


def test_many_panels_are_wrapped():
    ax = bar_facets(means(jobs=list(range(1, 8)), allocator=POLICIES))
    assert titles(ax) == [f"jobs {number}" for number in range(1, 8)]
    assert len({(ax.get_xlim(), ax.get_ylim()) for ax in ax.figure.axes}) == 1
    ticked = [bool(ax.xaxis.get_tick_params()["labelbottom"]) for ax in ax.figure.axes]
    assert ticked == [False] * 4 + [True] * 3
    assert [bool(ax.get_xlabel()) for ax in ax.figure.axes] == [False] * 4 + [True] + [False] * 2


@pytest.mark.parametrize("kind", but(["sweep", "bars", "cdf"], "bars"))
def test_a_policy_keeps_its_colour_in_every_picture(found, kind):
    """With the policy as the hue, whatever is selected: fifo is the first, maxmin the third."""
    expected = dict(zip(["fifo", "sebf", "maxmin"], style.COLOURS, strict=False))
    roles = {"x": "network"} if kind == "sweep" else {}
    for part in (found, found.where(workload="few"), found.where(allocator="maxmin")):
        seen = [colours(ax) for ax in part.plot(kind, **roles).figure.axes]
        assert seen
        for each in seen:
            assert each.items() <= expected.items()
            assert each


def test_panels_of_distributions_are_as_wide_as_what_they_show(found):
    """The curves fill all but a little of the axis, which all panels share."""
    panels = found.plot("cdf").figure.axes
    ends = [line.get_xdata()[place] for ax in panels for line in ax.lines for place in (0, -1)]
    for ax in panels:
        low, high = ax.get_xlim()
        assert math.log(max(ends) / min(ends)) / math.log(high / low) == pytest.approx(1 / 1.06)


def test_times_far_apart_have_axes_of_their_own_and_many_have_no_markers(tmp_path):
    """Alone, a job of 1 MB takes 100 s at 10 kB/s and 0.1 s at 10 MB/s; 120 in turn, 120 times."""
    found = netsim.sweep({"slow": netsim.big_switch(3, 1e4), "mid": netsim.big_switch(3, 1e6),
                          "fast": netsim.big_switch(3, 1e7)}, jobs(120), folder=tmp_path / "s",
                         allocator=["fifo", "sebf"], progress=False)
    figure = found.plot("cdf").figure
    figure.draw_without_rendering()
    assert "; axes differ" in figure.get_supxlabel()
    shown = []
    for ax in figure.axes:
        low, high = ax.get_xlim()
        ends = [end for line in ax.lines for end in line.get_xdata()[[0, -1]]]
        assert math.log(max(ends) / min(ends)) / math.log(high / low) == pytest.approx(1 / 1.06)
        assert {line.get_marker() for line in ax.lines} == {""}
        shown += [tick.label1.get_window_extent() for tick in ax.xaxis.get_major_ticks()]
    assert len(shown) >= 6
    for one, other in itertools.combinations(shown, 2):
        assert not one.overlaps(other)


def test_a_comparison_has_the_same_colours_by_class():
    compared = netsim.compare(netsim.big_switch(3, 1e6), jobs(4), ["fifo", "sebf", "maxmin"],
                              record=["coflows"])
    of_all = colours(compared.plot("cdf", of="jct"))
    bars = compared.plot("classes").patches
    assert set(map(colour_of, bars)) == {of_all["sebf"], of_all["maxmin"]}
    assert colours(compared.plot("bars")) == {
        name: of_all[name] for name in ("fifo", "sebf", "maxmin")}


def test_what_cannot_be_asked_for(table, found):
    with pytest.raises(UnknownNameError, match="unknown varied key 'speed'"):
        line_facets(table, col="speed")
    with pytest.raises(InputError, match="allocator is given as col and row; a setting has"):
        line_facets(table, col="allocator", row="allocator")
    with pytest.raises(InputError, match="has no style to choose; choose from: hue, col, row"):
        bar_facets(table, style="allocator")
    with pytest.raises(InputError, match="40 panels cannot be read, 36 at most"):
        line_facets(means(n=list(range(41)), m=list(range(40)), allocator=["a"]), col="m")
    wide = means(**{name: [1, 2] for name in "abcde"}, allocator=["x", "y"])
    with pytest.raises(InputError, match="e varied too, for which the plot has no place"):
        line_facets(wide)
    for kind in ("sweep", "bars"):
        with pytest.raises(InputError, match="y is the metric, which `of` chooses, not the set"):
            found.plot(kind, y="network")
    run = next(iter(found.results()))[1]
    with pytest.raises(InputError, match=r"x: only plots of a sweep .* not those of a run"):
        netsim.plots.pictures.draw_picture(run, None, "run", x="n")


def test_on_the_command_line(found, tmp_path):
    out = tmp_path / "a.svg"
    with pytest.raises(SystemExit, match="0"):
        main(["plot", str(found.folder), "--kind", "sweep", "--x", "network", "--col",
              "allocator", "--hue", "workload", "--out", str(out)])
    assert all(name in out.read_text() for name in ("fifo", "sebf", "maxmin", "few", "many"))


def test_roles_are_filled_in_order():
    """The policy is the hue, x has the most values, and single values need no place."""
    varied = {"n": 2, "m": 5, "allocator": 3, "scheduler": 1, "one": 1}
    assert roles_of(varied, ("x", "hue", "col", "row", "style"), {}) == {
        "x": "m", "hue": "allocator", "col": "scheduler", "row": "n"}
    assert roles_of({"n": 1, "allocator": 2}, ("x", "hue"), {}) == {"x": "n", "hue": "allocator"}


def test_networks_that_are_called_by_their_speeds_are_called_as_the_capacity_is():
    by_network = means(network=SPEEDS, observe_interval=INTERVALS, allocator=POLICIES)
    by_capacity = means(network__capacity=SPEEDS, observe_interval=INTERVALS, allocator=POLICIES)
    for roles in ("x", "col"):
        one, other = (line_facets(table, **{roles: key}).figure for table, key in (
            (by_network, "network"), (by_capacity, "network.capacity")))
        assert titles(one.axes[0]) == titles(other.axes[0])
        assert [ax.get_xlabel() for ax in one.axes] == [ax.get_xlabel() for ax in other.axes]
    assert titled("network", "big switch") == "big switch"


def test_settings_in_words():
    assert [words(key) for key in ("network.capacity", "allocator.theta_max", "gpus")] == [
        "link speed", "theta max", "GPUs"]
    assert [titled("observe_interval", value) for value in ("1ms", 0.5)] == [
        "observe interval 1 ms", "observe interval 0.5 s"]
    assert [titled("workload.jobs", 8000), titled("observe_interval", "1000ms")] == [
        "jobs 8,000", "observe interval 1,000 ms"]


# --- what a picture says -------------------------------------------------------------------


def test_what_whiskers_are_is_said(table):
    note = line_facets(table).figure.get_supxlabel()
    assert note == "whiskers: 95 % confidence intervals of the geometric mean over 5 seeds"
    one = line_facets(means(runs=1, n=[1, 2], allocator=["a"])).figure.get_supxlabel()
    assert one == "one run each"
    band = line_facets(means(n=list(range(1, 15)))).figure.get_supxlabel()
    assert band.replace("\n", " ").startswith("bands: 95 % confidence intervals")


def test_somebody_s_own_figure_has_the_note_under_the_last_axes_it_is_true_of():
    """The labels of the figure stay as they are; a note of one run each is another note."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.5), layout="constrained")
    figure.supxlabel("mine")
    left, middle, right = figure.subplots(1, 3)
    line_facets(means(n=[1, 2], allocator=["a"]), ax=left)
    bar_facets(means(allocator=["a", "b"]), ax=middle)
    line_facets(means(runs=1, n=[1, 2], allocator=["a"]), ax=right)
    notes = [[text.get_text().replace("\n", " ") for text in ax.texts] for ax in figure.axes]
    assert notes == [[], ["2.00", "3.00", "whiskers: 95 % confidence intervals of the geometric "
                          "mean over 5 seeds"], ["one run each"]]
    assert figure.get_supxlabel() == "mine"
    figure.draw_without_rendering()
    for ax in (middle, right):
        note = ax.texts[-1].get_window_extent()
        assert figure._supxlabel.get_window_extent().y1 < note.y0
        assert note.y1 < ax.xaxis.label.get_window_extent().y0
        assert ax.get_position().x0 < note.x0 / figure.bbox.width


def test_an_axis_that_is_cut_has_a_mark():
    """Means of 123 and 124 million s: from zero no difference could be seen."""
    ax = line_facets(means(n=[1, 2]), y="jct_mean_s")
    assert ax.get_ylim()[0] > 0
    assert "_cut" in [line.get_label() for line in ax.get_lines()]
    assert "_cut" not in [line.get_label() for line in line_facets(means(n=[1, 2])).get_lines()]


def test_thousands_have_separators():
    ax = line_facets(means(jobs=[500, 4000, 1_000_000]))
    assert [text.get_text() for text in ax.get_xticklabels()] == ["500", "4,000", "1,000,000"]


@pytest.mark.parametrize("panels", [{}, {"observe_interval": INTERVALS}])
def test_bars_have_their_values_in_the_unit_of_the_axis(panels):
    """123.5 million seconds and more, which are 1,429 days and more, in each panel."""
    table = means(**panels, allocator=POLICIES)
    first = bar_facets(table, "jct_mean_s", **dict.fromkeys(["col"] * len(panels), *panels))
    figure = first.figure
    texts = [text.get_text() for ax in figure.axes for text in ax.texts
             if "s" not in text.get_text()]  # the note below has
    assert [float(text.replace(",", "")) for text in texts] == pytest.approx(
        [*table["jct_mean_s"] / 86400], rel=5e-3)
    figure.draw_without_rendering()
    assert {ax.get_xlabel() for ax in figure.axes} - {""} == {"mean JCT (d)"}
    for ax in figure.axes:
        labels = {tick.get_text(): at for at, tick in
                  zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)}
        assert {at: float(text.replace(",", "")) * 86400 for text, at in labels.items()} == {
            at: pytest.approx(at) for at in labels.values()}
        assert ax.get_xlim() == first.get_xlim()


def test_labels_of_panels_of_bars_do_not_meet():
    table = means(n=[1, 2], allocator=["a policy with a long name", "b"]).rename(
        columns=lambda name: name.replace("over_lower_bound", "communication_rate"))
    first, second = bar_facets(table, "communication_rate").figure.axes
    first.figure.draw_without_rendering()
    assert (first.xaxis.label.get_window_extent().x1
            < second.xaxis.label.get_window_extent().x0)


def test_long_times_are_in_days():
    ax = line_facets(means(n=[1, 2]), y="jct_mean_s")
    assert ax.get_ylabel() == "mean JCT (d)"
    assert max(len(text.get_text()) for text in ax.get_yticklabels()) < 10
    bars = bar_facets(means(n=[1, 2]), "jct_mean_s").figure.axes[0]
    assert bars.get_xlabel() == "mean JCT (d)"


def test_lines_under_others_are_wider():
    """Two equal lines: the one below shows on both sides; the third, elsewhere, is as it was."""
    ax = style.new_axes(2.0)
    for label, y in (("a", [1, 2, 3]), ("b", [1, 2, 3]), ("c", [3, 2, 1])):
        ax.plot([0, 1, 2], y, label=label, linewidth=1)
    style.uncover(ax)
    assert [line.get_linewidth() for line in ax.get_lines()] == [2.6, 1, 1]


def test_ticks_between_the_ticks(table):
    ax = line_facets(table[table["observe_interval"] == "1ms"].drop(columns="observe_interval"))
    assert ax.xaxis.get_minor_locator().tick_values(1.25e9, 12.5e9)[-1] >= 12.5e9
    places = ax.xaxis.get_minorticklocs() / 1.25e8  # in Gbps
    assert {20, 30, 50, 60, 70, 80, 90} <= set(np.round(places, 6))


@pytest.mark.parametrize("letters", but([5, 20, 60], 60))
@pytest.mark.parametrize("draw", [bar_facets, line_facets])
def test_no_text_is_cut_off(letters, draw):
    names = [f"{index}{'x' * letters}" for index in range(3)]
    for keys in ({"allocator": names, "n": [1, 2]}, {"allocator": names, "n": [1]}):
        assert_inside(draw(means(**keys)).figure)


def test_panels_of_bars_are_as_high_as_the_titles_beside_them_are_long():
    """A bar or two are lower than 'observe interval 100 ms', which is written from top to foot."""
    figure = bar_facets(means(allocator=["sebf"], network__capacity=SPEEDS,
                              observe_interval=["1ms", "100ms"])).figure
    assert_inside(figure)
    beside = [(ax, text) for ax in figure.axes for text in ax.texts
              if text.get_text().startswith("observe interval")]
    assert len(beside) == 2
    for ax, text in beside:
        assert text.get_window_extent().height <= ax.bbox.height


LONG = "an oversubscribed leaf-spine with a rather long name"


@pytest.mark.parametrize(("draw", "roles"), few([
    (line_facets, {"x": "observe_interval", "col": "network"}),
    (line_facets, {"x": "network", "style": "observe_interval"}),
    (line_facets, {"x": "network", "col": "observe_interval"}),
    (bar_facets, {"col": "network", "row": "observe_interval"}),
    (bar_facets, {"hue": "network", "col": "allocator", "row": "observe_interval"})], 2))
def test_long_names_leave_panels_their_room_and_titles_apart(draw, roles):
    """Titles are broken, and the figure grows: axes are an inch wide and half an inch high."""
    figure = draw(means(network=[LONG, "big switch"], allocator=[*POLICIES, AALO],
                        observe_interval=["1ms", "10ms"]), **roles).figure
    assert_inside(figure)
    assert "long name" in " ".join(
        text.get_text().replace("\n", " ") for text in texts_in(figure))
    assert all(ax.bbox.width >= figure.dpi and ax.bbox.height >= figure.dpi / 2
               for ax in figure.axes)
    shown = [text.get_window_extent() for ax in figure.axes
             for text in (ax._left_title, ax.yaxis.label) if text.get_text()]
    shown += [legend.get_window_extent() for legend in figure.legends]
    for one, other in itertools.combinations(shown, 2):
        assert not one.overlaps(other)


@pytest.mark.parametrize("policies", [
    ["parrot", "lccf (work_conservation=none)"],
    ["lccf (work_conservation=none)", "lccf"]])
def test_bars_and_lines_agree_on_what_has_no_work_conservation(policies):
    """Light and hollow, also where the policy with work conservation is not drawn."""
    table = means(allocator=policies, n=[1, 2])
    lines = {line.get_label(): line.get_markerfacecolor() == "white"
             for line in labelled(line_facets(table))}
    assert lines == {style.short(label): "none" in label for label in policies}
    bars = bar_facets(table[table["n"] == 1]).patches  # one with work conservation has a solid tone
    assert [bar.get_facecolor() != bar.get_edgecolor() for bar in bars] == [
        "none" in label for label in policies]


def assert_inside(figure):
    """Every text that is drawn lies within the figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = figure.bbox.size
    beyond = {label for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)
              for tick in axis.get_major_ticks()
              for label in (tick.label1, tick.label2)
              if not min(axis.get_view_interval()) <= tick.get_loc() <= max(
                  axis.get_view_interval())}
    for text in texts_in(figure):
        if text.get_visible() and text.get_text() and text not in beyond:
            box = text.get_window_extent(canvas.get_renderer())
            within = (box.x0 >= -2 and box.y0 >= -2 and box.x1 <= width + 2
                      and box.y1 <= height + 2)
            assert within, text.get_text()
