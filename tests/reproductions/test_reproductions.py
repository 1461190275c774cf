"""Reproductions: what is claimed is held against runs, and says so honestly."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.analysis.intervals import geometric_interval
from netsim.errors import InputError, UnknownNameError
from netsim.predictors.registry import PREDICTORS
from netsim.reproductions import (
    REPRODUCTIONS,
    Claim,
    Reproduction,
    find_reproduction,
    llm_neighbours,
)
from netsim.reproductions.claims import (
    LESS,
    MORE,
    PLAIN,
    RATIO,
    SHARE,
    Runs,
    above,
    below,
    below_one,
    near,
    table_of_claims,
)
from netsim.reproductions.joint import LAYERS, SYSTEMS, layers_study, systems_study
from netsim.reproductions.preemption import RECURRENT, TIRESIAS, study
from tests.pairs import but


def test_runs_that_were_stopped_give_no_verdict():
    stopped = table().assign(jobs_finished=[4, *[5] * 11])
    assert table_of_claims([claim()], stopped)["verdict"][0] == "not measured"


def table():
    """Total JCTs of two policies at two speeds, three seeds."""
    rows = [(speed, policy, seed, total) for speed, policy, totals in (
        ("10Gbps", "a", (1, 2, 3)), ("10Gbps", "b", (2, 2, 2)), ("40Gbps", "a", (1, 1, 1)),
        ("40Gbps", "b", (4, 4, 4))) for seed, total in enumerate(totals)]
    frame = pd.DataFrame(rows, columns=["network.capacity", "allocator", "seed", "jct_total_s"])
    return frame.assign(jobs=5, jobs_finished=5)


def claim(**changes):
    return Claim(**{"text": "a over b", "paper": "< 1", "criterion": below_one,
                    "measure": lambda runs: runs.ratio({"allocator": "a", "capacity": "10Gbps"},
                                                       {"allocator": "b", "capacity": "10Gbps"}),
                    **changes})


def test_a_claim_is_measured_seed_by_seed():
    """1/2, 2/2 and 3/2: a geometric mean of (3/4)^(1/3) = 0.909, below 1 for one seed of three."""
    row = table_of_claims([claim()], table()).iloc[0]
    assert row["mean"] == pytest.approx(0.75 ** (1 / 3))
    assert (row["least"], row["most"], row["seeds"]) == (0.5, 1.5, 3)
    assert (row["held"], row["equal"], row["holds_on"]) == (1, 1, "1 of 3 (1 equal)")
    assert (row["low"], row["high"]) == pytest.approx(geometric_interval([0.5, 1, 1.5])[1:])
    assert row["measured"] == f"0.909 [{row['low']:.3g}, {row['high']:.3g}]"
    assert row["verdict"] == "partly"
    shares = table_of_claims([claim(percent=True, scale=PLAIN)], table()).iloc[0]
    assert shares["mean"] == 1
    assert shares["measured"].startswith("100.0% [-24.")
    assert (shares["holds_on"], shares["verdict"]) == ("1 of 3", "differs")


def of_figures(*figures, **changes):
    """The row of a claim whose figures are these, one for each seed."""
    return claim(measure=lambda runs: pd.Series(figures, dtype=float), **changes).row(None)


def test_a_few_far_ratios_do_not_make_a_verdict():
    """Seven seeds at 1/2 and three at 2.5: 1.1 on average, and 0.81 geometrically."""
    row = of_figures(*[0.5] * 7, *[2.5] * 3)
    assert row["mean"] == pytest.approx(0.5 ** 0.7 * 2.5 ** 0.3)
    assert 0 < row["low"] < 1 < row["high"]
    assert (row["holds_on"], row["verdict"]) == ("7 of 10", "partly")


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=8))
def test_how_much_less_or_more_is_a_ratio_too(ratios):
    """1 - r and r - 1 have the mean of r, taken from 1 and less 1; so have their intervals."""
    ratios = np.array(ratios)
    plain, less, more = (of_figures(*values, scale=scale) for values, scale in (
        (ratios, RATIO), (1 - ratios, LESS), (ratios - 1, MORE)))
    for figure, of_less in (("mean", "mean"), ("low", "high"), ("high", "low")):
        assert 1 - less[of_less] == pytest.approx(plain[figure], rel=1e-6)
        assert 1 + more[figure] == pytest.approx(plain[figure], rel=1e-6)
    assert less["low"] <= less["mean"] + 1e-9


def test_shares_stay_within_a_whole():
    """Of 0, 0 and 1 Student's interval is from -1.1 to 1.8."""
    row = of_figures(0, 0, 1, scale=SHARE, percent=True)
    assert row["measured"] == "33.3% [0.0%, 100.0%]"


def test_one_seed_has_no_interval():
    row = of_figures(0.5)
    assert (row["measured"], row["holds_on"]) == ("0.5", "1 of 1")
    assert np.isnan([row["low"], row["high"]]).all()


def test_figures_that_must_be_near_1_may_be_equal():
    """Those that are equal and hold are not counted a second time."""
    near_one = of_figures(1, 1, 1.02, criterion=near(1, 0.05))
    assert (near_one["holds_on"], near_one["verdict"]) == ("3 of 3", "holds")


@pytest.mark.parametrize(("criterion", "sense", "verdict"), [
    (below(5), None, "holds"), (below(1), None, "partly"), (below(0.92), None, "partly"),
    (below(0.9), None, "differs"), (below(0.2), above(0.2), "partly"),
    (below(0.2), above(0.5), "differs")])
def test_verdicts(criterion, sense, verdict):
    """Of 1/2, 1 and 3/2: 0.909 [0.225, 3.67]."""
    found = table_of_claims([claim(criterion=criterion, sense=sense)], table())
    assert found["verdict"][0] == verdict


def test_runs_that_are_missing_give_no_verdict():
    row = table_of_claims([claim()], table().iloc[1:]).iloc[0]
    assert (row["verdict"], row["measured"]) == ("not measured", "-")
    none = table_of_claims([claim()], table().iloc[:0]).iloc[0]
    assert none["verdict"] == "not measured"


def test_runs_must_be_told_apart():
    with pytest.raises(InputError, match="selects several runs of one seed"):
        Runs(table()).of(allocator="a")


#: By the beginning of a reproduction's name: the options that make its workload small.
FEW = {"parrot-fig9": {"jobs": 12, "poisson_jobs": 12}, "parrot-fig2": {}, "parrot": {"jobs": 12},
       "a-srpt-testbed": {"jobs": 60, "sample": 6}, "a-srpt": {"jobs": 20},
       "a-online-preemptions-servers": {"jobs": 100}, "a-online-outlook": {"jobs": 100},
       "a-online": {"jobs": 12},
       "sjf-bco": {"mix": {"1": 4, "2": 2, "8": 2}, "iterations": [20, 60]},
       "joint": {"iterations": [1, 3]}, "preemption": {"jobs": 12, "max_gpus": 8},
       "llm-neighbours": [*({"iterations": 1, "global_batch": batch} for batch in (32, 16, 8, 16)),
                          {"iterations": [1, 2]}]}

#: Those of which some choices in each layer are enough.
PARTS = {"joint-study": lambda: layers_study(only(LAYERS, "fifo", "sjf", "first-fit", "random",
                                                  "maxmin", "parrot")),
         "joint-systems": lambda: systems_study(only(SYSTEMS, "ff", "a-srpt-perfect", "maxmin",
                                                     "parrot")),
         "llm-neighbours": lambda: llm_neighbours.study(("mapped",), ("maxmin", "parrot", "sebf")),
         "preemption-recurrent": lambda: study("preemption-recurrent", "few", RECURRENT, *LITTLE),
         "preemption-tiresias": lambda: study("preemption-tiresias", "few", TIRESIAS, *LITTLE)}

#: Placements and allocators of a small study.
LITTLE = (("first-fit", "consolidated"), ("maxmin",))


def only(layers, *kept):
    return {layer: {name: called for name, called in names.items() if name in kept}
            for layer, names in layers.items()}


@pytest.mark.parametrize("name", but(
    [name for name, each in REPRODUCTIONS.items()
     if isinstance(each, Reproduction) and name != "a-srpt-jobs"],
    "parrot-fig2", "sjf-bco-lambda", "a-srpt-predictors", "a-online-utilisation",
    "joint-systems", slow=[
        "a-online-jobs", "a-online-links", "a-online-preemptions", "joint-study", "llm-neighbours",
        "parrot-fit", "preemption-tiresias"]))
def test_each_can_be_measured_and_drawn(name, tmp_path, monkeypatch):
    """On a few jobs, so that nothing is said of what comes out, nor does it take a forest.

    All but the one that varies how many jobs there are, up to 150,000.
    """
    monkeypatch.setitem(PREDICTORS.places, "random-forest", PREDICTORS.places["mean"])
    whole = PARTS.get(name, lambda: find_reproduction(name))()
    small = next(options for start, options in FEW.items() if name.startswith(start))
    given = whole.keys["workload"]
    few = replace(whole, keys={**whole.keys, "workload": {**given, **small} if isinstance(
        given, dict) else [{**one, **own} for one, own in zip(given, small, strict=True)]})
    done = few.run(seeds=1, folder=tmp_path / name)
    assert done.sweep.missing == 0
    assert len(done.claims) == len(whole.claims)
    assert "not measured" not in set(done.claims["verdict"])
    assert np.isfinite(done.claims["mean"]).all()
    ax = done.draw()
    assert ax.figure.axes
    assert pd.read_csv(tmp_path / name / "claims.csv")["claim"].tolist() == (
        done.claims["claim"].tolist())


def test_a_measurement_writes_what_is_steady(tmp_path, monkeypatch):
    """Times that it took are in no file: the same seeds give the same bytes."""
    monkeypatch.setattr("netsim.reproductions.a_srpt._CASES", 1)
    monkeypatch.setattr("netsim.reproductions.a_srpt._LIMIT_S", 1.0)
    whole, told = find_reproduction("a-srpt-mapping"), []
    for which in "ab":
        done = whole.run(seeds=[3], folder=tmp_path / which,
                         progress=lambda *at: told.append(at))
    assert told == [(1, 0, 1)] * 2
    assert done.sweep is None
    assert "took_ms" in done.table
    assert "not measured" not in set(done.claims["verdict"])
    assert done.draw().figure.axes
    for name in ("runs.csv", "claims.csv"):
        text = (tmp_path / "a" / name).read_bytes()
        assert text == (tmp_path / "b" / name).read_bytes()
        assert b"took" not in text
    with pytest.raises(InputError, match="a-srpt-mapping takes no trace"):
        whole.run(trace="jobs.csv")


def test_a_trace_takes_the_place_of_the_drawn_one():
    sample = Path(__file__).parents[2] / "workloads" / "tiresias-sample.csv"
    keys = find_reproduction("parrot-fig9").draft(sample).keys["workload"]
    assert keys == {"file": str(sample), "iterations": 10, "arrival_scale": 0.05,
                    "length": "250MB", "poisson_jobs": 100, "poisson_mean": "500ms"}
    none = find_reproduction("parrot-fig9")
    with pytest.raises(InputError, match="parrot-fig9 takes no trace"):
        replace(none, trace=None).draft(sample)


def test_a_trace_of_another_format_brings_all_of_its_keys():
    """Nothing of the drawn jobs is left: neither how many there are, nor how they are spread."""
    keys = find_reproduction("preemption-tiresias").draft("60_job.csv").keys["workload"]
    assert keys == {"file": str(Path("60_job.csv").absolute()), "format": "tiresias-cluster",
                    "train": 0, "gpus_per_server": 4, "most_iterations": 16}


def test_an_unknown_one():
    with pytest.raises(UnknownNameError, match="unknown reproduction 'parrot-fig3'"):
        find_reproduction("parrot-fig3")
