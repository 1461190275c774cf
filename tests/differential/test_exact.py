"""Coflow policies against their twins in exact arithmetic, on random cases full of ties."""

import importlib.util
from pathlib import Path

import pytest

from tests.examples import examples

_spec = importlib.util.spec_from_file_location("cases", Path(__file__).with_name("cases.py"))
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


@pytest.mark.parametrize("name", cases.POLICIES)
def test_finish_times(name):
    """Whole bytes, equal ports and half seconds: ends, arrivals and crossings often coincide."""
    off = {seed: cases.difference(name, seed) for seed in range(examples(24, fewest=3))}
    assert {seed: each for seed, each in off.items() if each > 1e-9} == {}
