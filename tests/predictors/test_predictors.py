"""Predictors: what they learn, and the rules that hold for each."""

import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.errors import InputError, MissingExtraError, UnknownNameError
from netsim.predictors import PREDICTORS, Guarded, make_predictor

#: Group, user; three jobs of group 1, two of group 2.
PAST = [[1, 7], [1, 8], [1, 8], [2, 7], [2, 9]]
ITERATIONS = [10, 20, 90, 1, 4]

ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 10**6)),
                min_size=1, max_size=30)


class Doubled:
    """A regressor of a user's own: twice the group, less 3."""

    def __init__(self, factor=2):
        self.factor, self.asked = factor, []

    def fit(self, X, y):
        self.learned = (X.tolist(), y.tolist())
        return self

    def predict(self, X):
        self.asked.append(X.tolist())
        return self.factor * X[:, 0] - 3


# --- mean and median ------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "asked", "expected"), [
    ("mean", [1, 7], 40), ("mean", [1, 99], 40), ("mean", [2, 8], 2.5),
    ("median", [1, 7], 20), ("median", [2, 7], 2.5),
    ("mean:scope=user", [2, 8], 55), ("median:scope=user", [1, 7], 5.5),
    ({"name": "mean", "scope": "user"}, [1, 99], 0),
    ("mean:scope=global", [2, 99], 25), ("median:scope=global", [1, 7], 10),
    # of a group that is not there, in every scope
    ("mean", [3, 7], 0), ("mean:scope=user", [3, 7], 0), ("median:scope=global", [3, 7], 0),
])
def test_simple(given, asked, expected):
    assert make_predictor(given).fit(PAST, ITERATIONS).predict([asked]).tolist() == [expected]


@given(ROWS, st.sampled_from(["mean", "median"]), st.sampled_from(["group", "user", "global"]))
def test_as_pandas_has_it(rows, name, scope):
    table = pd.DataFrame(rows, columns=["group", "user", "iterations"]).assign(all=0)
    by = table.groupby("all" if scope == "global" else scope)["iterations"]
    X = table[["group", "user"]].to_numpy()
    found = make_predictor({"name": name, "scope": scope}).fit(X, table["iterations"]).predict(X)
    assert found.tolist() == pytest.approx(by.transform(name).tolist(), rel=1e-12)


def test_fitting_again_forgets():
    mean = make_predictor("mean").fit(PAST, ITERATIONS).fit([[5, 5]], [6])
    assert mean.predict([[1, 7], [5, 5]]).tolist() == [0, 6]


# --- rules of all ---------------------------------------------------------------------------


def test_only_groups_that_were_seen_are_asked_for_and_nothing_is_negative():
    guarded = make_predictor(Doubled()).fit(PAST, ITERATIONS)
    assert guarded.predict([[3, 7], [2, 0], [1, 7], [9, 9]]).tolist() == [0, 1, 0, 0]
    assert guarded.predictor.asked == [[[2, 0], [1, 7]]]
    assert guarded.predictor.learned == (PAST, ITERATIONS)
    assert guarded.predict([[3, 7]]).tolist() == [0]
    assert guarded.predict([]).tolist() == []
    assert len(guarded.predictor.asked) == 1


def test_nothing_is_rounded():
    assert make_predictor(Doubled(2.125)).fit(PAST, ITERATIONS).predict([[2, 0]]) == [1.25]


def test_without_a_past_all_groups_are_unseen():
    guarded = make_predictor(Doubled()).fit([], [])
    assert guarded.predict([[3, 7]]).tolist() == [0]
    assert not hasattr(guarded.predictor, "learned")


def test_those_of_no_group_are_never_known():
    assert make_predictor("mean").fit([[-1, 3]], [50]).predict([[-1, 3]]).tolist() == [0]


def test_perfect_knows_unseen_groups_too():
    perfect = make_predictor("perfect").fit(PAST, ITERATIONS)
    assert perfect.predict([[3, 7], [1, 7]], [12, 2.5]).tolist() == [12, 2.5]
    with pytest.raises(InputError, match="'perfect' uses the true iterations"):
        perfect.predict([[3, 7]])
    with pytest.raises(InputError, match="of each of 1 jobs"):
        perfect.predict([[3, 7]], [1, 2])


def test_the_clairvoyant_see_the_truth_as_a_third_column():
    class Half(Doubled):
        clairvoyant = True

        def predict(self, X):
            return X[:, 2] / 2

    half = make_predictor(Half).fit(PAST, ITERATIONS)
    assert half.predictor.learned[0][2] == [1, 8, 90]
    assert half.predict([[3, 7]], [9]).tolist() == [4.5]


# --- random forest --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(3)
    X = rng.integers(0, 40, (600, 2))
    return X, 100.0 * X[:, 0] + rng.integers(0, 50, 600)


@pytest.fixture
def forest():
    pytest.importorskip("sklearn")
    return lambda **options: make_predictor({"name": "random-forest", "trees": 12} | options)


def test_forests_are_scikit_learns(forest, many):
    from sklearn.ensemble import RandomForestRegressor

    from netsim.base.streams import stream

    X, y = many[0], 100.0 * many[0][:, 0] + many[0][:, 1] ** 2 % 7  # the same for a pair's jobs
    draws = int(stream(5, "random-forest").integers(2**31))
    theirs = RandomForestRegressor(12, random_state=draws).fit(X, y).predict(X)
    assert forest(seed=5).fit(X, y).predict(X) == pytest.approx(theirs, rel=1e-12)


def test_forests_learn_the_means_of_pairs(forest):
    """Two jobs of the same pair, 10 and 30: trees that drew one, the other or both say 10 to 30."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.permutation(50), 40).reshape(-1, 1) * [[1, 0]]
    y = 1000.0 * X[:, 0] + np.tile([10.0, 30.0], 1000)
    found = forest(trees=50).fit(X, y).predict(X) - 1000 * X[:, 0]
    assert found == pytest.approx(20, abs=2)


def test_forests_do_not_depend_on_cores_or_reports(forest, many):
    expected = forest().fit(*many).predict(many[0]).tolist()
    told = []
    reporting = forest(n_jobs=1).fit(*many, report=lambda *done: told.append(done))
    assert told == [(2, 12), (4, 12), (6, 12), (8, 12), (10, 12), (12, 12)]
    for each in (reporting, forest(n_jobs=1).fit(*many), forest(n_jobs=3).fit(*many)):
        assert each.predict(many[0]).tolist() == expected
    assert forest(seed=1).fit(*many).predict(many[0]).tolist() != expected


def test_forests_tell_large_ids_apart(forest):
    """As float32 they are one number."""
    past = [[10**12 + group, 0] for group in range(8)] * 20
    fitted = forest().fit(past, [100 * (group - 10**12) for group, _ in past])
    assert fitted.predict(past[:8]).tolist() == pytest.approx([*range(0, 800, 100)])


def test_a_default_forest_has_a_hundred_trees(many):
    pytest.importorskip("sklearn")
    fitted = make_predictor("random-forest").fit(many[0][:50], many[1][:50])
    assert len(fitted.predictor._trees) == 100


def test_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtraError, match=r"install 'coflow-netsim\[predict\]'"):
        make_predictor("random-forest")
    assert make_predictor("mean").fit(PAST, ITERATIONS).predict([[1, 7]]) == [40]


def test_regressors_of_scikit_learn_are_predictors(many):
    ensemble = pytest.importorskip("sklearn.tree")
    given = ensemble.DecisionTreeRegressor(random_state=0)
    guarded = make_predictor(given).fit(*many)
    assert guarded.name == "DecisionTreeRegressor"
    assert guarded.predict([[99, 0]]).tolist() == [0]
    assert not hasattr(given, "tree_")


# --- how they are named ---------------------------------------------------------------------


def test_a_users_own_by_where_it_is(tmp_path, monkeypatch):
    (tmp_path / "mine_to_load.py").write_text("""
class Best:
    def __init__(self, level=1): self.level = level
    def fit(self, X, y): return self
    def predict(self, X): return [self.level] * len(X)
no_class = None
""")
    monkeypatch.syspath_prepend(tmp_path)
    made = make_predictor("mine_to_load:Best:level=6")
    assert made.name == "mine_to_load:Best (level=6)"
    assert made.fit(PAST, ITERATIONS).predict([[1, 7]]).tolist() == [6]
    with pytest.raises(InputError, match="has no attribute 'Worst'"):
        make_predictor("mine_to_load:Worst")
    with pytest.raises(InputError, match="must be a class"):
        make_predictor("mine_to_load:no_class")


def test_instances_are_copied():
    given = Doubled()
    made = make_predictor(given)
    made.fit(PAST, ITERATIONS).predict([[1, 7]])
    assert given.asked == []
    again = make_predictor(made)
    assert isinstance(again, Guarded)
    assert again.predictor is not made.predictor


def test_names_are_listed():
    with pytest.raises(UnknownNameError, match="did you mean 'mean'") as caught:
        make_predictor("meen")
    assert caught.value.choices == sorted(PREDICTORS)


@pytest.mark.parametrize(("given", "message"), [
    ("mean:scop=user", "unknown option of predictor 'mean' 'scop'"),
    ("mean:scope=team", "unknown scope 'team'"),
    ({"scope": "user"}, "with a 'name' and options"),
    (3, r"'int' is not a predictor: it must have the methods fit"),
    ("nowhere_at_all:Best", "cannot be loaded: No module named"),
    ("random-forest:trees=0", "random forest: trees must be a whole number"),
    ("random-forest:n_jobs=0", "random forest: n_jobs must be a whole number"),
    ("random-forest:seed=-1", "random forest: seed must be a whole number"),
])
def test_others_are_refused(given, message):
    if "forest" in str(given):
        pytest.importorskip("sklearn")
    with pytest.raises(InputError, match=message):
        make_predictor(given)


@pytest.mark.parametrize("wrong", [
    lambda mean: mean.predict([[1, 7]]),
    lambda mean: mean.fit([[1]], [2]),
    lambda mean: mean.fit([[1.5, 2]], [2]),
    lambda mean: mean.fit(PAST, [1]),
    lambda mean: mean.fit([[1, 2]], [np.nan]),
    lambda mean: mean.fit(PAST, ITERATIONS).predict([1, 7]),
])
def test_what_is_no_table_is_refused(wrong):
    with pytest.raises(InputError, match="predictor 'mean'"):
        wrong(make_predictor("mean"))


@pytest.mark.parametrize("answer", [[1], [np.nan, 1], ["a", "b"], [[1], [2]], None])
def test_wrong_predictions_are_refused(answer):
    class Wrong(Doubled):
        def predict(self, X):
            return answer

    with pytest.raises(InputError, match="'Wrong' must predict one finite number per job"):
        make_predictor(Wrong).fit(PAST, ITERATIONS).predict([[1, 7], [2, 7]])
