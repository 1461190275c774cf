"""The ledger: what the papers say, where they say it, and that verdicts follow from values."""

import os
import re
from pathlib import Path

import pandas as pd
import pytest

from netsim.reproductions import PAPERS, REPRODUCTIONS
from netsim.reproductions.claims import VERDICTS, Runs, above, at_least, at_most, below, near
from netsim.reproductions.drawings import filled
from netsim.reproductions.ledger import Paper, Statement, statements
from netsim.reproductions.measure import Measure, read_measured
from netsim.reproductions.parrot import readings
from tests.offenders import check_each
from tests.pairs import but, exhaustive

ROOT = Path(__file__).parents[2]
TEXTS = Path(os.environ.get("NETSIM_PAPERS", ROOT.parent / "shared" / "papers"))
ROWS = [(paper, row) for paper in PAPERS.values() for row in paper.rows]
SETTINGS = [(paper, key) for paper in PAPERS.values() for key in paper.settings]

#: Papers whose statements are soon measured.
LIGHT = [PAPERS[name] for name in ("sjf-bco", "a-srpt")]

#: How far from the words that a row gives its numbers may stand, in characters.
NEAR = 400


@pytest.fixture(autouse=True, scope="module")
def each_has_one_outcome():
    """Let outcomes be found once for all tests: nothing here changes the kept runs."""
    with pytest.MonkeyPatch.context() as patch:
        outcome, found = Paper.outcome, {}

        def once(paper, row, measured=None):
            if measured is not None:
                return outcome(paper, row, measured)
            if (row.setting, row.text) not in found:
                found[row.setting, row.text] = outcome(paper, row)
            return found[row.setting, row.text]

        patch.setattr(Paper, "outcome", once)
        yield


def plain(text):
    """Drop what the text of a paper has of formulas and of layout."""
    return re.sub(r"\s+", " ", re.sub(r"[$*\\{}~]|-\n", "", text))


def texts_of(paper):
    """Return the texts of a paper; skip if they are not there."""
    found = [plain(path.read_text()) for path in sorted(TEXTS.glob(f"{paper.name}*.txt"))]
    if not found:
        pytest.skip("the texts of the papers are not here: NETSIM_PAPERS names their folder")
    return found


def test_each_statement_has_a_name_of_its_own():
    ids = [row.id for _, row in ROWS]
    assert len(ids) == len(set(ids))
    for paper, row in ROWS:
        assert re.fullmatch(rf"{paper.name}-\d\d", row.id)
        assert row.where
        assert row.find


def test_no_two_statements_are_the_same():
    texts = [row.text for _, row in ROWS]
    assert len(texts) == len(set(texts))


@pytest.mark.parametrize("paper", PAPERS.values(), ids=PAPERS)
def test_the_paper_says_so(paper):
    """The words that a row gives stand in the paper, and its numbers near them."""
    texts = texts_of(paper)
    check_each(lambda row: stands_in(row, texts), paper.rows, lambda row: row.id)


def stands_in(row, texts):
    """Check that the words and the numbers of a row stand in one of the texts of its paper."""
    found = [text for text in texts if row.find in text]
    assert found, f"{row.find!r} is not in the paper"
    assert all(text.count(row.find) == 1 for text in found), f"{row.find!r} is there several times"
    numbers = set(re.findall(r"\d+(?:\.\d+)?", re.sub(r"(?<=\d),(?=\d{3})", "", row.text)))
    for text in found:
        place = text.index(row.find)
        passage = text[max(0, place - NEAR):place + len(row.find) + NEAR].replace(",", "")
        missing = {number for number in numbers if not re.search(
            rf"(?<![\d.]){re.escape(number)}(?:\.0+)?(?![\d])", passage)}
        if not missing:
            return
    pytest.fail(f"{missing} are not near {row.find!r}")


@pytest.mark.parametrize("paper", but(PAPERS.values(), *LIGHT), ids=PAPERS)
def test_each_setting_has_runs_and_statements(paper):
    """What a statement needs is among the kept runs, and each has a verdict."""
    def has_both(key):
        assert len(read_measured(f"{paper.name}-{key}")), "run: netsim reproduce NAME --keep"
        for row in paper.of(key):
            assert paper.outcome(row).verdict in VERDICTS, row.text
        assert paper.of(key)

    check_each(has_both, paper.settings)


@exhaustive
def test_every_statement_has_a_verdict():
    found = list(statements(PAPERS))
    assert {row["verdict"] for row in found} <= {*VERDICTS}
    untold = [row["id"] for row in found if row["verdict"] == "cannot be told"]
    assert len(untold) <= len(found) / 8
    assert all(row["why"] for row in found if row["id"] in untold)


def test_a_verdict_follows_from_the_values():
    """With other runs the same row has another verdict; a number of the paper is written once."""
    row = Statement(id="x-01", says="It is {paper} less", paper="50%", setting="here",
              measure=Measure(kind="less", one="a", other="b"),
              rule={"near": "paper", "within": 0.1}, sense={"above": 0})
    assert row.text == "It is 50% less"

    def verdict(*totals):
        table = pd.DataFrame([(name, seed, total) for seed, pair in enumerate(totals)
                              for name, total in zip("ab", pair, strict=True)],
                             columns=["allocator", "seed", "jct_total_s"])
        return row.claim.row(Runs(table))["verdict"]

    assert verdict((5, 10), (5.1, 10)) == "holds"
    assert verdict((9, 10), (8.9, 10)) == "partly"
    assert verdict((12, 10), (12.1, 10)) == "differs"
    assert verdict((float("nan"), 10), (5, 10)) == "not measured"


@pytest.mark.parametrize(("criterion", "inside", "edge", "outside"), [
    (below(1), 0.5, False, 2), (above(1), 2, False, 0.5), (at_most(1), 0.5, True, 2),
    (at_least(1), 2, True, 0.5), (near(1, 0), 1, True, 1.1)])
def test_criteria(criterion, inside, edge, outside):
    assert criterion.holds(inside)
    assert criterion.holds(1) is edge
    assert not criterion.holds(outside)


def table(**metrics):
    """Runs of two policies at two speeds for one seed, with a metric each."""
    places = [("10", "a"), ("10", "b"), ("40", "a"), ("40", "b")]
    frame = pd.DataFrame(places, columns=["network.speed", "allocator"])
    return Runs(frame.assign(seed=0, **metrics))


def measured(values, **measure):
    """What a measure finds for one seed."""
    return Measure(metric="m", **measure).of(below(0), None, table(m=values)).tolist()


def test_measures_by_hand():
    """A has 2 and 3, b has 4 and 12, at 10 and at 40."""
    values = [2.0, 4.0, 3.0, 12.0]
    at = {"speed": "10"}
    over = {"network.speed": ["10", "40"]}
    assert measured(values, at=at, one="b") == [4]
    assert measured(values, kind="ratio", at=at, one="a", other="b") == [0.5]
    assert measured(values, kind="less", at=at, one="a", other="b") == [0.5]
    assert measured(values, kind="more", at=at, one="b", other="a") == [1]
    assert measured(values, kind="ratio", at=at, one="b", other=["a", "b"]) == [2]
    assert measured(values, kind="less", one="a", other="b", over=over, pick="most") == [0.75]
    assert measured(values, kind="less", one="a", other="b", over=over, pick="least") == [0.5]
    assert measured(values, kind="ratio", one="a", other="b", at=at, than={"speed": "40"}) == [2]
    assert measured(values, kind="ratio", one="b", along={"speed": ["10", "40"]}) == [3]
    assert measured(values, kind="difference", at=at, one="a", other="b") == [-2]
    assert measured(values, kind="difference", one="b", along={"speed": ["10", "40"]}) == [8]


def test_a_curve_turns_where_it_rises_after_it_fell():
    """3 2 2 5 4: it falls, is level, rises and falls, and so turns twice."""
    frame = pd.DataFrame({"k": range(5), "seed": 0, "m": [3.0, 2.0, 2.0, 5.0, 4.0]})
    turns = Measure(kind="turns", metric="m", along={"k": [0, 1, 2, 3, 4]})
    assert turns.of(below(0), None, Runs(frame)).tolist() == [2]
    steps = Measure(kind="ratio", metric="m", along={"k": [0, 1, 2, 3, 4]}, pick="most")
    assert steps.of(below(0), None, Runs(frame)).tolist() == [2.5]
    every = steps.model_copy(update={"pick": "every"})
    assert every.of(above(0), None, Runs(frame)).tolist() == [2 / 3]


def test_the_runs_that_a_measure_needs():
    measure = Measure(kind="ratio", one="a", other="b", at={"speed": "10"}, than={"speed": "40"})
    assert len(table(m=[1.0] * 4).any_of(measure.selected())) == 4
    one = Measure(one="a", at={"speed": "10"})
    assert len(table(m=[1.0] * 4).any_of(one.selected())) == 1


@pytest.mark.parametrize("paper", but(PAPERS.values(), *LIGHT), ids=PAPERS)
def test_the_page_shows_the_kept_values(paper):
    """Pages are made from data: run `netsim reproduce PAPER --rows --page docs/systems/...`."""
    page = (ROOT / "docs" / "systems" / f"{paper.name}.md").read_text()
    for name, rows in paper.tables().items():
        assert filled(page, name, {"rows": rows}) == page, name
    words = " ".join(page.split())
    check_each(lambda claim: values_stand_in(words, paper, claim), paper.claims,
               lambda claim: claim.text)


def values_stand_in(words, paper, claim):
    """Check that a page has the kept value of a claim, with its interval."""
    assert paper.outcome(claim).shown in words


@exhaustive
def test_the_nearest_reading_is_the_ready_made_workload():
    """Of what Parrot's paper does not say; the numbers are those of its rows."""
    numbers = PAPERS["parrot"].settings["fit"].options["numbers"]
    found = readings(read_measured("parrot-fit"), numbers)
    best = found.loc[found["off"].idxmin()]
    assert best[["length", "arrival_scale", "parrot", "others"]].tolist() == [
        "250MB", 0.05, "backfill", "shared_uniform"]
    assert len(found) == 96
    assert best["off"] == pytest.approx(0.044, abs=0.0005)


#: Seconds up to which the first seed of a setting runs again: by default, in the gate, and in
#: `make test-all`.
FAST_S, QUICK_S, CHEAP_S = 0.4, 3, 60


def kept_settings():
    """Yield the settings that are cheap enough, and made from no real trace."""
    for name in (f"{paper.name}-{key}" for paper, key in SETTINGS):
        if len(kept := read_measured(name)):
            took = kept.loc[kept["seed"] == 0, "cpu_s"].sum()
            if took < CHEAP_S and not kept["trace"].any():
                yield pytest.param(name, marks=[exhaustive] * int(took > FAST_S)
                                   + [pytest.mark.slow] * int(took > QUICK_S))


@pytest.mark.parametrize("name", list(kept_settings()))
def test_kept_runs_are_what_a_run_finds(name):
    """All metrics of all combinations of the first seed, but what it took."""
    whole = REPRODUCTIONS[name]
    kept, found = read_measured(name), whole.run(seeds=1).table
    kept = kept[kept["seed"] == 0].drop(
        columns=["cpu_s", "trace", "version", *getattr(whole, "unsteady", ())])
    texts = [column for column in kept if not pd.api.types.is_numeric_dtype(kept[column])]
    assert len(kept) == len(found)
    for column in kept:
        if column in texts:
            assert found[column].astype(str).tolist() == kept[column].tolist()
        else:
            assert found[column].to_numpy(float) == pytest.approx(
                kept[column].to_numpy(float), rel=1e-6, nan_ok=True), column
