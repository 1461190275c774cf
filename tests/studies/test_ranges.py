"""Sweeps over ranges: what is drawn, and that every policy runs at the same points."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim import Points, Range
from netsim.cli.main import main
from netsim.errors import InputError, MissingExtraError, SpecError, UnknownNameError
from netsim.experiment_file.ranges import combinations

SMALL = {"network": {"name": "parrot-fig2"}, "workload": {"name": "parrot-fig2"}}


@pytest.mark.parametrize(("low", "high", "ends", "unit", "values"), [
    (1, 4, (1, 4), "", {1, 2, 3, 4}), (0.0, 1.0, (0, 1), "", None),
    ("1ms", "1s", (0.001, 1), "s", None), ("1MB", "1GB", (1e6, 1e9), "B", None),
    ("10Gbps", "40Gbps", (1.25e9, 5e9), "B/s", None), (0, "5s", (0, 5), "s", None),
    (0.5, 3, (0.5, 3), "", None)])
def test_values_are_within_the_ends(low, high, ends, unit, values):
    between = Range(low, high)
    assert between.unit == unit
    drawn = [between.at(place) for place in np.linspace(0, 1, 101)]
    assert drawn == sorted(drawn)
    assert (drawn[0], drawn[-1]) == ends
    if values is not None:
        assert set(drawn) == values
        assert all(isinstance(value, int) for value in drawn)


def test_whole_numbers_are_as_likely_as_each_other():
    drawn = [Range(1, 4).at((k + 0.5) / 4000) for k in range(4000)]
    assert [drawn.count(value) for value in (1, 2, 3, 4)] == [1000] * 4


@given(st.floats(1e-3, 1e3), st.floats(1.01, 1e6), st.floats(0, 1))
def test_factors_are_as_likely_as_each_other(low, factor, place):
    """At half of the way is the geometric mean of the ends."""
    value = Range(low, low * factor, log=True).at(place)
    assert math.log(value / low) == pytest.approx(place * math.log(factor), abs=2e-5)


@pytest.mark.parametrize(("arguments", "message"), [
    ((2, 1), r"low must be below high in 2\.\.1"), ((1, 1), "below"),
    (("1s", "1Gbps"), "needs two numbers, or two times, sizes or rates, not '1s' and '1Gbps'"),
    ((1, "2s"), "needs a unit at both of its ends or at neither, not 1 and '2s'"),
    (("1ms", 5), "needs a unit at both"), (("a", "b"), "needs two numbers"),
    ((None, 1), "needs two numbers"),
    ((True, 2), "needs two numbers"), ((0.0, math.inf), "needs two numbers"),
    ((0, 1, True), r"low must be above 0 in 0\.\.1:log"), ((1, 2, "yes"), "log must be true")])
def test_ranges_that_are_none(arguments, message):
    with pytest.raises(InputError, match=message):
        Range(*arguments)


def test_each_part_of_each_range_has_a_point():
    pytest.importorskip("scipy")
    ranges = {"a": Range(0.0, 10.0), "b": Range("1ms", "1s", log=True)}
    points = Points(10).drawn_from(ranges)
    assert sorted(int(point["a"]) for point in points) == list(range(10))
    assert sorted(int(10 * (math.log10(point["b"]) + 3) / 3) for point in points) == [*range(10)]
    assert points == Points(10).drawn_from(ranges) != Points(10, seed=1).drawn_from(ranges)


def test_more_random_points_keep_those_that_there_are():
    ranges = {"a": Range(0.0, 1.0), "b": Range(5, 500)}
    few, many = (Points(count, "random").drawn_from(ranges) for count in (5, 9))
    assert many[:5] == few


def test_equal_points_count_once():
    drawn = Points(100, "random").drawn_from({"a": Range(1, 3)})
    assert sorted(point["a"] for point in drawn) == [1, 2, 3]


def test_lists_are_combined_with_each_point():
    vary = {"a": [1, 2], "b": Range(0.0, 1.0), "c": "xy"}
    found = list(combinations(vary, Points(3, "random")))
    assert len(found) == 2 * 3 * 2
    assert all(list(each) == ["a", "b", "c"] for each in found)
    assert {each["b"] for each in found if each["c"] == "x"} == {
        each["b"] for each in found if each["c"] == "y"}


def test_a_call_and_a_file_draw_the_same(tmp_path):
    """Policies run at the same points, for each seed; a second call computes nothing."""
    between = {"low": "1ms", "high": "1s", "log": True}
    points = {"count": 3, "method": "random", "seed": 4}
    file = netsim.Experiment(**SMALL, sweep={"seeds": 2, "points": points, "vary": {
        "allocator": ["parrot", "lccf"], "observe_interval": between}})
    of_file = netsim.sweep_experiment(file, folder=tmp_path / "s")
    of_call = netsim.sweep("parrot-fig2", "parrot-fig2", allocator=["parrot", "lccf"],
                           observe_interval=Range(**between), points=Points(**points), seed=[0, 1])
    columns = ["allocator", "observe_interval", "seed", "jct_total_s"]
    assert of_file.table[columns].equals(of_call.table[columns])
    assert len(of_file.table) == 2 * 3 * 2
    assert of_file.table.groupby("observe_interval")["allocator"].count().tolist() == [4] * 3
    done = []
    netsim.sweep_experiment(file, folder=tmp_path / "s", progress=lambda *each: done.append(each))
    assert all(each[0] == each[2] == 12 for each in done)
    assert netsim.Experiment(**file.resolved()).sweep == file.sweep
    assert of_file.ratios()["ratio"].notna().all()


@pytest.mark.parametrize(("sweep", "message"), [
    ({"vary": {"observe_interval": {"low": 0.1, "high": 1.0}}},
     r"points must say how many are drawn from the range of 'observe_interval', 0\.1\.\.1\.0"),
    ({"points": 3, "vary": {"allocator": ["sebf"]}}, "nothing is varied over one"),
    ({"points": 0, "vary": {"until": {"low": 1, "high": 2}}}, "sweep.points: points: count must b"),
    ({"points": {"count": 3, "methd": "random"}}, "sweep.points: unknown option of points 'methd'"),
    ({"points": {"count": 3, "method": "sobol"}}, "sweep.points: unknown method of points 'sobol'"),
    ({"points": 3, "vary": {"until": {"low": 3, "high": 2}}}, r"sweep\.vary\.until: low must be"),
    ({"points": 3, "vary": {"until": {"low": 3}}}, r"sweep\.vary\.until: a range needs: high"),
    ({"vary": {"until": 3}}, r"sweep\.vary\.until: must be a list of values, or a range, not 3"),
    ({"vary": {"until": []}}, r"sweep\.vary\.until: there are no values to vary it over"),
])
def test_what_a_file_cannot_say(sweep, message):
    with pytest.raises(SpecError, match=message):
        netsim.Experiment(**SMALL, sweep=sweep)


def test_what_a_call_cannot_say():
    with pytest.raises(InputError, match="points must say how many"):
        netsim.sweep("parrot-fig2", "parrot-fig2", observe_interval=Range(0.1, 1.0))
    with pytest.raises(InputError, match="nothing is varied over one"):
        netsim.sweep("parrot-fig2", "parrot-fig2", allocator=["sebf", "aalo"], points=3)
    with pytest.raises(UnknownNameError, match="unknown method of points 'grid'"):
        Points(3, "grid")


def test_values_that_the_experiment_refuses_are_named():
    with pytest.raises(SpecError, match=r"set by 'allocator\.theta_max="):
        netsim.sweep_experiment(netsim.Experiment(**SMALL, allocator="parrot"), {
            "allocator.theta_max": Range(5.0, 6.0)}, points=Points(2, "random"))


def test_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats.qmc", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'coflow-netsim\[sample\]'"):
        netsim.sweep("parrot-fig2", "parrot-fig2", observe_interval=Range(0.1, 1.0), points=3)


def test_ranges_in_calls_take_the_points_of_the_file():
    """Values in their place need no points; points that are given go over the file's."""
    file = netsim.Experiment(**SMALL, sweep={"points": {"count": 3, "method": "random"}, "vary": {
        "observe_interval": {"low": 0.1, "high": 1.0}}})
    for points, runs in ((None, 3), (Points(2, "random"), 2)):
        found = netsim.sweep_experiment(file, {"observe_interval": Range(0.5, 0.9)},
                                        points=points, progress=False)
        assert len(found.table) == runs
    listed = netsim.sweep_experiment(file, {"observe_interval": [0.5, 0.9]}, progress=False)
    assert len(listed.table) == 2


def test_options_of_a_policy_in_a_call():
    """As `sweep_experiment` has them: a column per option, and the label of the policy is none."""
    found = netsim.sweep("parrot-fig2", "parrot-fig2", points=Points(4, "random"), progress=False,
                         allocator={"name": "parrot", "theta_max": Range(0.5, 1.0)})
    of_file = netsim.sweep_experiment(
        netsim.Experiment(**SMALL, allocator="parrot"), {"allocator.theta_max": Range(0.5, 1.0)},
        points=Points(4, "random"), progress=False)
    assert found.columns == ("allocator.theta_max",)
    columns = ["allocator.theta_max", "jct_total_s"]
    assert found.table[columns].equals(of_file.table[columns])
    with pytest.raises(InputError, match=r"allocator: the range 2\.\.9 is in one of several"):
        netsim.sweep("parrot-fig2", "parrot-fig2", points=2,
                     allocator=["parrot", {"name": "aalo", "queues": Range(2, 9)}])


def test_drawn_values_are_written_with_units(tmp_path):
    """Tables have numbers; the rows to read, and the pictures, quantities."""
    found = netsim.sweep_experiment(
        netsim.Experiment(**SMALL), {"network.capacity": Range("8Gbps", "9Gbps"),
                                     "observe_interval": Range("1ms", "1s", log=True)},
        points=Points(3, "random"), folder=tmp_path / "s", progress=False)
    assert found.units == {"network.capacity": "B/s", "observe_interval": "s"}
    assert found.table["network.capacity"].between(1e9, 1.125e9).all()
    written = found.with_units()
    for name, parse in (("network.capacity", netsim.base.units.parse_rate),
                        ("observe_interval", netsim.base.units.parse_seconds)):
        assert [parse(each) for each in written.table[name]] == pytest.approx(
            list(found.table[name]), rel=5e-3)
        assert written.grid[name] == list(written.table[name])
    assert written.table["network.capacity"].str.fullmatch(r"8\.\d+ Gbps").all()
    assert written.with_units() is written


def test_scales_that_a_range_does_not_have(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["sweep", "demo", "--vary", "observe_interval=1ms..1s:lin", "--points", "3"])
    assert "1ms..1s:lin: unknown scale of a range, 'lin'; write 1ms..1s:log" in (
        capsys.readouterr().err)
