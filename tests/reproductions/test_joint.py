"""The joint study: what a factorial says of its layers, and that all of them are legal together."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.errors import InputError
from netsim.reproductions import find_reproduction
from netsim.reproductions.claims import Runs, table_of_claims
from netsim.reproductions.factorial import Factorial
from netsim.reproductions.joint import CONDITIONS, SYSTEMS
from netsim.reproductions.joint import LAYERS as STUDIED
from netsim.simulation.compatibility import policies_of
from netsim.simulation.needs import needs_of

LAYERS = {"scheduler": ["s", "t"], "placement": ["p", "q"], "allocator": ["a", "b"]}
FOUND = Factorial(LAYERS, {"network.name": "here"})

#: What each choice takes over the first of its layer.
FACTORS = {"s": 1, "t": 4, "p": 1, "q": 2, "a": 1, "b": 1}


def table(time_of, seeds=(0, 1)):
    """A run for each combination and seed; and others, elsewhere."""
    rows = [(where, *choice, seed, time_of(*choice, seed) if where == "here" else 99.0)
            for where, *choice, seed in product(("here", "there"), *LAYERS.values(), seeds)]
    columns = ["network.name", *LAYERS, "seed", "jct_mean_s"]
    return pd.DataFrame(rows, columns=columns).assign(jobs=3, jobs_finished=3)


def multiplied(scheduler, placement, allocator, seed):
    return 10.0 ** seed * FACTORS[scheduler] * FACTORS[placement] * FACTORS[allocator]


def test_factors_that_multiply_share_the_variance():
    """Of log 4 and log 2 the squares are as 4 to 1, whatever seeds have in common."""
    split = FOUND.variance(Runs(table(multiplied)))
    assert split.index.tolist() == [0, 1]
    assert split["scheduler"].tolist() == pytest.approx([0.8, 0.8])
    assert split["placement"].tolist() == pytest.approx([0.2, 0.2])
    assert split[["allocator", "together"]].to_numpy() == pytest.approx(np.zeros((2, 2)))
    # Half the logarithms of 4 and of 2 on either side of the mean: sqrt(1 + 1/4) log 2.
    assert split["deviation"].tolist() == pytest.approx([1.25 ** 0.5 * np.log(2)] * 2)


def only_with_t_and_q(scheduler, placement, allocator, seed):
    """The allocator matters with t alone, and q helps t; by default neither is to be seen."""
    return {"sp": 4, "sq": 5, "tp": 3, "tq": 2}[scheduler + placement] * (
        1.5 + seed if scheduler + allocator == "tb" else 1)


def test_the_worst_over_the_best_depends_on_the_rest():
    """The best is t, q and a: 2. There b is 1.5 or 2.5 times as long, s takes 5, p takes 3."""
    runs = Runs(table(only_with_t_and_q))
    for layer, best, default in (("allocator", [1.5, 2.5], 1), ("scheduler", [2.5] * 2, 4 / 3),
                                 ("placement", [1.5] * 2, 1.25)):
        assert FOUND.spread(layer, True, runs).tolist() == pytest.approx(best)
        assert FOUND.spread(layer, False, runs).tolist() == pytest.approx([default] * 2)
    assert FOUND.spread_at("allocator", "scheduler", 1, runs).tolist() == pytest.approx([1.5, 2.5])
    assert FOUND.spread_at("allocator", "scheduler", 0, runs).tolist() == pytest.approx([1, 1])
    # With s as often as with t: the root of what it is with t.
    assert FOUND.spread_at("allocator", "placement", 1, runs).tolist() == pytest.approx(
        [1.5 ** 0.5, 2.5 ** 0.5])
    assert FOUND.over_default("allocator", 1, runs).tolist() == pytest.approx(
        [1.5 ** 0.5, 2.5 ** 0.5])


def test_each_is_held_against_the_best_other_with_what_is_best_for_it():
    """That of s is with p, 4; that of t with q and a, 2."""
    runs = Runs(table(only_with_t_and_q))
    assert FOUND.over_others("scheduler", 0, runs).tolist() == pytest.approx([2, 2])
    assert FOUND.over_others("scheduler", 1, runs).tolist() == pytest.approx([0.5, 0.5])


def test_what_is_missing_or_was_stopped_is_not_known():
    """Of seed 0; seed 1 has all its runs."""
    whole = table(multiplied)
    stopped = whole.assign(jobs_finished=[2, *[3] * (len(whole) - 1)])
    for lacking in (whole.iloc[1:], stopped):
        runs = Runs(lacking)
        for values in (FOUND.share("scheduler", runs), FOUND.spread("placement", False, runs),
                       FOUND.over_others("scheduler", 1, runs)):
            assert np.isnan(values[0])
        assert FOUND.share("scheduler", runs)[1] == pytest.approx(0.8)


def test_without_runs_nothing_is_measured():
    columns = ["seed", *STUDIED, *next(iter(CONDITIONS.values())), "jct_mean_s", "makespan_s",
               "jobs", "jobs_finished"]
    for name in ("joint-study", "joint-systems"):
        claims = find_reproduction(name).claims
        verdicts = table_of_claims(claims[::7], pd.DataFrame(columns=columns))["verdict"]
        assert set(verdicts) == {"not measured"}


def test_runs_of_a_factorial_must_be_told_apart():
    with pytest.raises(InputError, match="have the same scheduler, placement, allocator"):
        Factorial(LAYERS, {}).variance(Runs(table(multiplied)))


@pytest.mark.parametrize("layers", [STUDIED, SYSTEMS])
def test_all_choices_are_there_and_go_together(layers):
    """Those of the systems leave nothing to a placement but what their own option says."""
    for name in layers["scheduler"]:
        for placement in layers.get("placement", [None]):
            scheduler = policies_of(name, placement, "fabric").scheduler
            assert placement is None or "no placement" not in needs_of(scheduler, "cluster")
    assert [ALLOCATORS.to_dict(make_allocator(name))["name"] for name in layers["allocator"]] == [
        *layers["allocator"]]
