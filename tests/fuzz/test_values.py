"""What is written on one line: quantities, policies, settings, seeds, values to vary."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from netsim.base.plugins import parse_named
from netsim.base.units import parse_bytes, parse_rate, parse_seconds, parse_value
from netsim.cli.options import format_options, seeds_of
from netsim.cli.sweep import _grid
from netsim.experiment_file.load import Draft, prepare
from netsim.studies.grid import refuse_twins, runs_of_experiment

from .harness import Guard, fuzzed
from .mutations import changed, odd_numbers, odd_texts, odd_values
from .test_experiments import KEYS, ON_CLUSTER, ON_EDGE, ON_NETWORK

UNITS = ("s", "ms", "us", "µs", "ns", "min", "h", "d", "B", "kB", "MB", "MiB", "bit", "bps", "Gbps",
         "B/s", "MB/s", "Tbit/s", "b/s", "KiB", "PB", "Gb", "m", "")
#: One in which nothing takes long to make.
SWEPT: dict[str, Any] = {
    "name": "s", "seed": 1, "network": {"kind": "big-switch", "hosts": 4, "capacity": "10Gbps"},
    "workload": {"name": "parrot-fig2"}, "allocator": {"name": "parrot", "theta_max": 0.6}}
SWEPT_KEYS = ("network", "network.capacity", "network.hosts", "allocator", "allocator.name",
              "allocator.theta_max", "workload.name", "observe_interval", "seed", "events",
              "workload.seed", "compare", "sweep.seeds", "name", "events.0.at", "until", "record",
              " network . capacity ", "scheduler", "cluster.servers", "network.capacity.x")


@fuzzed(3)
@given(data=st.data())
def test_quantities(guard: Guard, part: int, data: st.DataObject) -> None:
    number = odd_numbers.map(str) | st.from_regex(r"[+-]?\d*\.?\d*([eE][+-]?\d+)?", fullmatch=True)
    spaced = st.tuples(number, st.sampled_from(["", " ", "\t", "\u00a0"]), st.sampled_from(UNITS))
    value = data.draw(spaced.map("".join) | odd_values)
    for parse in (parse_seconds, parse_bytes, parse_rate):
        parsed = guard(lambda parse=parse: parse(value, "the size"), named="the size")
        if parsed is not None:
            assert isinstance(parsed, float)
            assert 0 <= parsed <= 1e100
            assert parse is not parse_rate or not parsed or math.isfinite(1e100 / parsed)


@fuzzed(2)
@given(data=st.data())
def test_names_with_options(guard: Guard, part: int, data: st.DataObject) -> None:
    text = data.draw(st.lists(odd_texts | st.sampled_from(["parrot", "a=1", ":", "=", "[1,", "{"]),
                              max_size=4).map(":".join) | st.text())
    assert isinstance(parse_named(text)["name"], str)
    parse_value(text)


@fuzzed(4)
@given(data=st.data())
def test_settings(guard: Guard, part: int, data: st.DataObject) -> None:
    """``--set KEY=VALUE``, on the keys of a file."""
    keys = data.draw(st.sampled_from([ON_NETWORK, ON_CLUSTER, ON_EDGE, SWEPT]))
    path = data.draw(st.lists(st.sampled_from(KEYS) | odd_texts | st.integers(-1, 3).map(str),
                              min_size=1, max_size=3).map(".".join))
    value = data.draw(odd_values.map(repr) | odd_texts)
    setting = f"{path}={value}" if data.draw(st.integers(0, 9)) else path
    draft = Draft({"network": {}} | dict(changed_nothing(keys)))
    if guard(lambda: draft.override(setting) or True):
        guard(draft.build)


def changed_nothing(keys: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of an experiment's keys, deep where tables are changed in place."""
    return {key: dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list)
            else value for key, value in keys.items()}


@fuzzed(4)
@given(data=st.data())
def test_sweep_tables(guard: Guard, part: int, data: st.DataObject) -> None:
    grid = {"seeds": 2, "vary": {"network.capacity": ["1Gbps", "2Gbps"], "allocator": ["parrot"]}}
    drawn = data.draw(changed(grid, SWEPT_KEYS))
    draft = Draft(changed_nothing(SWEPT) | {"sweep": drawn})

    def cells() -> Any:
        prepared, table = prepare(draft, None, None)
        runs = runs_of_experiment(prepared, table)
        refuse_twins(runs)
        return runs

    found = guard(cells)
    if found is not None:
        assert len({cell.key for cell in found}) == len(found)
        assert all(len(cell.key) == 16 and cell.key.isalnum() for cell in found)


@fuzzed(2)
@given(data=st.data())
def test_values_to_vary(guard: Guard, part: int, data: st.DataObject) -> None:
    """``--vary KEY=VALUE,...`` and ``--seeds``, as far as they are only read."""
    given_ = data.draw(st.lists(st.tuples(
        st.sampled_from(SWEPT_KEYS) | odd_texts, st.sampled_from(["=", "", "=="]),
        st.lists(odd_texts | odd_values.map(repr), max_size=3).map(",".join)).map("".join),
        max_size=3))
    guard(lambda: _grid(tuple(given_), {}))
    seeds = data.draw(odd_texts | st.lists(odd_numbers.map(str), max_size=3).map(",".join))
    guard(lambda: seeds_of(seeds))
    guard(lambda: format_options(tuple(given_)))
