"""Quantities: what is read, and what is refused."""

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.base import units
from netsim.base.units import (
    WithUnit,
    format_bytes,
    format_count,
    format_number,
    format_rate,
    format_seconds,
    parse_bytes,
    parse_rate,
    parse_seconds,
    parse_value,
    question_units,
)
from netsim.errors import NetsimWarning, UnitError


@pytest.mark.parametrize(("text", "value"), [
    ("10ms", 0.01), ("1.5 h", 5400), ("2min", 120), ("3us", 3e-6), ("1e3s", 1000), (7, 7),
    (np.float64(0.5), 0.5), ("0", 0)])
def test_seconds(text, value):
    assert parse_seconds(text) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(("text", "value"), [
    ("40MB", 40e6), ("1KiB", 1024), ("8bit", 1), ("1 GB", 1e9), (".5kB", 500), (12, 12)])
def test_bytes(text, value):
    assert parse_bytes(text) == value


@pytest.mark.parametrize(("text", "value"), [
    ("10Gbps", 1.25e9), ("8 bit/s", 1), ("300GB/s", 3e11), ("1MiB/s", 2**20), (1e6, 1e6)])
def test_rates(text, value):
    assert parse_rate(text) == value


@pytest.mark.parametrize("wrong", ["10 parsecs", "ten ms", "", "ms", "1 2 s", "--1s", "nan", "inf",
                                   math.nan, math.inf, None, True, [1], {"a": 1}, 10**400, "1e999s",
                                   -1, "-1s"])
def test_refused_with_the_value(wrong):
    with pytest.raises(UnitError) as error:
        parse_seconds(wrong, "observe_interval")
    assert str(error.value).startswith("observe_interval ")
    assert repr(wrong) in str(error.value)


def test_unknown_unit_lists_the_choices():
    with pytest.raises(UnitError, match=r"unknown unit 'apples'; choose from: .*Gbps"):
        parse_rate("10 apples")


@pytest.mark.parametrize(("parse", "listed"), [
    (parse_bytes, "B, bit, also after k, M, G, T, P, Ki, Mi, Gi, Ti or Pi, such as GB and Gbit"),
    (parse_rate, "B/s, bps, bit/s, b/s, also after k, M, G, T, P, Ki, Mi, Gi, Ti or Pi, such as "
     "GB/s and Gbps"), (parse_seconds, "s, ms, us, µs, ns, min, h, d")])
def test_prefixes_are_listed_once(parse, listed):
    with pytest.raises(UnitError) as error:
        parse("10 apples")
    assert str(error.value).endswith(f"unknown unit 'apples'; choose from: {listed}")


@pytest.mark.parametrize(("parse", "text", "meant"), [
    (parse_rate, "10gps", "10Gbps"), (parse_rate, "10gbps", "10Gbps"),
    (parse_rate, "1.5mbps", "1.5Mbps"), (parse_rate, "40 Gbits", "40Gbit/s"),
    (parse_rate, "10GB", "10GB/s"), (parse_rate, "10Gb", "10Gbps"),
    (parse_rate, "10GBps", "10GB/s or 10Gbps"), (parse_rate, "10kBs", "10kB/s"),
    (parse_bytes, "40mB", "40MB"), (parse_bytes, "40mb", "40MB or 40Mbit"),
    (parse_bytes, "3 Mib", "3MiB or 3Mibit"), (parse_bytes, "3 KIB", "3KiB"),
    (parse_bytes, "8 bytes", "8B"), (parse_bytes, "8 bits", "8bit"),
    (parse_seconds, "10msec", "10ms"), (parse_seconds, "2 minutes", "2min"),
    (parse_seconds, "1 hour", "1h"), (parse_seconds, "3 secs", "3s"),
    (parse_seconds, "1 days", "1d"), (parse_seconds, "5m", "5min"), (parse_seconds, "5S", "5s"),
    (parse_seconds, "5 MS", "5ms")])
def test_a_unit_that_is_nearly_one_says_which(parse, text, meant):
    """What differs by capitals, a letter or a usual word; two where bits and bytes are as near."""
    with pytest.raises(UnitError) as error:
        parse(text)
    assert f" (did you mean {meant}?); choose from: " in str(error.value)


@pytest.mark.parametrize(("parse", "text"), [
    (parse_seconds, "10 parsecs"), (parse_rate, "10ms"), (parse_bytes, "10ms"),
    (parse_seconds, "1MB"), (parse_bytes, "4XB"), (parse_seconds, "7 apples")])
def test_a_unit_that_is_nearly_none_gets_no_advice(parse, text):
    with pytest.raises(UnitError, match=r"has the unknown unit '\w+'; choose from"):
        parse(text)


def test_strict_refuses_the_bound_itself():
    assert parse_rate(0) == 0
    with pytest.raises(UnitError, match="capacity must be greater than 0, not 0"):
        parse_rate(0, "capacity", strict=True)


def test_what_would_overflow_is_refused():
    with pytest.raises(UnitError, match=r"size must be at most 1e\+100, not 1e\+101"):
        parse_bytes(1e101)
    with pytest.raises(UnitError, match="nic must be at least 1e-18 bytes/s, not '1e-300bps'"):
        parse_rate("1e-300bps", "nic")
    assert parse_seconds(1e-300) == 1e-300


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 5000])
def test_what_toml_cannot_read_is_text(text):
    assert parse_value(text) == text


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_a_unit_error(text):
    with contextlib.suppress(UnitError):
        assert parse_bytes(text) >= 0


def test_formats():
    assert format_bytes(4e7) == "40 MB"
    assert format_rate(1.25e9) == "10 Gbps"
    assert [format_seconds(t) for t in (0.0123, 4e-6, 0, 12.3456, 51926.3)] == [
        "12.3 ms", "4 us", "0 s", "12.35 s", "51,926 s"]
    assert [format_number(x) for x in (0, 2.3e-10, 12.3456, 999.94, 999.96, 9999.7, 1e15)] == [
        "0", "2.3e-10", "12.35", "999.9", "1,000", "10,000", "1e+15"]
    assert [format_count(n, "coflow") for n in (0, 1, 2400)] == [
        "0 coflows", "1 coflow", "2,400 coflows"]


@pytest.mark.parametrize("value", [40, 40.0, "40", np.float64(999.9), 1e-18])
def test_a_small_rate_without_a_unit_is_questioned(value):
    """40 is read as bytes per second, although bits, or Gbps, may be meant."""
    with pytest.warns(NetsimWarning, match=r"^capacity = .* is read as .* bytes/s") as said:
        assert read([("capacity", value)]) == [float(value)]
    assert len(said) == 1
    assert f'"{float(value):g}B/s"' in str(said[0].message)


@pytest.mark.parametrize("value", [0, 1000, "40B/s", "40bps", "1kB/s", 1.25e9])
def test_other_rates_are_not_questioned(value):
    read([("capacity", value)])


def test_rates_are_questioned_only_where_asked_for():
    """In Python a number is in base units; what is refused is not questioned."""
    parse_rate(40)
    read([("capacity", 40)], ask=False)
    with pytest.raises(UnitError, match="at least 0"):
        read([("capacity", 40), ("capacity", -1)])
    with question_units():
        read([("capacity", 40)], ask=False)


def test_many_rates_are_one_question():
    """Of equal ones the first is named: a capacity both ways is one."""
    with pytest.warns(NetsimWarning, match="^a = 1 has .*; likewise: b = 2, c = 3$") as said:
        read([("a", 1), ("b", 2), ("d", 1), ("c", 3)])
    assert len(said) == 1
    units._told.clear()
    with pytest.warns(NetsimWarning, match=r"likewise: a = 2, a = 3, a = 4, \.\.\.$"):
        read([("a", value) for value in range(1, 99)])


def test_a_process_is_told_once_of_each_kind():
    def ask():
        with question_units():
            for value in (40, 50):
                parse_rate(value, "capacity")
                parse_seconds(value, "latency", usual=1e-3)
                parse_bytes(value, "nbytes", usual=1000)

    with pytest.warns(NetsimWarning) as said:
        ask()
    assert [str(each.message) for each in said] == [
        'capacity = 40 has no unit and is read as 40 bytes/s; write "40B/s" if this is meant, '
        'otherwise add the unit, as in "40Gbps"; likewise: capacity = 50',
        'latency = 40 has no unit and is read as 40 s; write "40s" if this is meant, otherwise '
        'add the unit, as in "10ms"; likewise: latency = 50',
        'nbytes = 40 has no unit and is read as 40 bytes; write "40B" if this is meant, otherwise '
        'add the unit, as in "40MB"; likewise: nbytes = 50']
    ask()


@pytest.mark.parametrize("parse", [
    lambda: parse_seconds("40s", usual=1), lambda: parse_seconds(WithUnit(40), usual=1),
    lambda: parse_seconds(0.9, usual=1), lambda: parse_seconds(40), lambda: parse_bytes(40),
    lambda: parse_bytes("40B", usual=1000), lambda: parse_bytes(1000, usual=1000),
    lambda: parse_bytes(0, usual=1000), lambda: parse_rate(WithUnit(40))])
def test_what_is_usual_or_has_a_unit_is_not_questioned(parse):
    with question_units():
        parse()


def read(rates, ask=True):
    with question_units(ask):
        return [parse_rate(value, what) for what, value in rates]


def test_numbers_of_numpys_are_shown_as_pythons():
    with pytest.raises(UnitError, match=r"rate must be greater than 0, not 0$"):
        parse_rate(np.int8(0), "rate", strict=True)
