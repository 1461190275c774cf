"""f(alpha, k): its forms by hand, what is asked of it, and that it is computed once."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.errors import InputError, UnknownNameError
from netsim.models.degradation import Slowdown

HERE = __name__


def slowdown(degradation="linear", alpha=0.0, xi1=1.0, k_min=1.0):
    return Slowdown(alpha, xi1, k_min, degradation)


def worse(k, alpha, beta=1.0):
    """A user's own f: the cost of each other one grows with their number."""
    return k + alpha * (k - 1) ** 2 * beta


@given(st.floats(0, 1e6), st.floats(1e-6, 1), st.sampled_from([0.5, 1.0, 2.5]))
def test_the_linear_one_to_the_last_bit(alpha, xi1, k_min):
    jobs = np.arange(1, 200)
    k = np.maximum(k_min, xi1 * jobs)
    if k[0] + alpha * (k[0] - 1) > 1e-6:
        np.testing.assert_array_equal(slowdown("linear", alpha, xi1, k_min)(jobs),
                                      k + alpha * (k - 1))


@pytest.mark.parametrize("name", ["linear", "power"])
def test_without_a_cost_shares_are_equal(name):
    assert slowdown(name)([1, 2, 7]).tolist() == [1, 2, 7]


def test_a_power():
    """With alpha = 1, that is k squared: four contenders are 16 times as slow each."""
    assert slowdown("power", alpha=1)([1, 2, 4]).tolist() == [1, 4, 16]


def test_a_table():
    """Between 1 and 3, 1 + (5 - 1) (k - 1)/2; beyond, the line from (2, 3) to (3, 5) goes on."""
    assert slowdown({"name": "table", "values": [1, 3, 5]})([1, 2, 3, 4, 6]).tolist() == [
        1, 3, 5, 7, 11]
    found = slowdown({"name": "table", "values": [2, 6], "at": [1, 3]}, xi1=0.5, k_min=0)
    assert found([1, 2, 3, 4, 6, 8]).tolist() == [0.5, 1, 1.5, 2, 3, 4]  # k is half of that


def test_the_times_that_the_paper_quotes():
    """Wang et al.: 295 s for one job, 675 s for each of four; straight lines between them."""
    found = slowdown({"name": "table", "values": [295, 675], "at": [1, 4]})([1, 2, 4])
    assert found.tolist() == pytest.approx([1, (295 + 380 / 3) / 295, 675 / 295])


def test_one_s_own():
    own = f"{HERE}:worse"
    assert slowdown(worse, alpha=0.5)([1, 2, 3]).tolist() == [1, 2.5, 5]
    assert slowdown(own, alpha=0.5)([1, 2, 3]).tolist() == [1, 2.5, 5]
    assert slowdown({"name": own, "beta": 2}, alpha=0.5)([1, 2, 3]).tolist() == [1, 3, 7]
    assert slowdown({"name": own, "alpha": 1})([1, 2]).tolist() == [1, 3]
    assert slowdown(np.sqrt)([1, 4]).tolist() == [1, 2]


def test_it_is_computed_once_for_each_contention():
    """Not at each decision; more contenders than ever before double the table."""
    asked = []

    def counted(k):
        asked.append(k)
        return k

    found = slowdown(counted)
    before = len(asked)
    assert found(np.full(10_000, 7)).tolist() == [7] * 10_000
    assert len(asked) == before == len(set(asked))
    assert found([900]).tolist() == [900]
    assert found(np.arange(1, 1801)).tolist() == list(range(1, 1801))
    assert len(asked) == before + 1800


@pytest.mark.parametrize(("degradation", "message"), [
    (lambda k: k + 1, r"degradation '<lambda>' must be 1 for one contender, k = 1, not 2"),
    (lambda k: min(k, 5.0), "must increase with the contention k, but is 5 at k = 5 and 5 at k ="),
    (lambda k: 1 / k, "must increase with the contention k, but is 1 at k = 1 and 0.5 at k = 2"),
    (lambda k: math.inf if k > 2 else k, "must be finite, not inf at k = 3"),
    (lambda k: "many", "fails at k = 1: ValueError: could not convert string to float: 'many'"),
    (lambda k: 1 / (k - 2), "fails at k = 2: ZeroDivisionError"),
    (lambda k, beta: k, "degradation '<lambda>' needs: beta"),
    (3, "degradation must be a name, or a function of the contention k, not 3"),
    ("table", "degradation 'table' needs: values"),
    ({"name": "table", "values": [1]}, r"a table needs two values or more.*not values = \[1\]"),
    ({"name": "table", "values": [1, 2], "at": [2, 4]}, "increasing from 1; not"),
    ({"name": "table", "values": [1, 2], "at": [1, 2, 3]}, "a contention for each"),
    ({"name": "table", "values": [1, 2, 2]}, "but is 2 at k = 2 and 2 at k = 3"),
    ({"name": "table", "values": [0, 1]}, "must be finite, not nan at k = 1"),
    ({"values": [1, 2]}, "degradation must be a name, or a mapping with a 'name' and options"),
])
@pytest.mark.filterwarnings("ignore:.*(divide|invalid)")
def test_refused(degradation, message):
    with pytest.raises(InputError, match=message):
        slowdown(degradation)


def test_a_fall_beyond_the_first_contenders_is_seen_when_it_may_matter():
    """The table grows to twice as many as contend: of 240 and 480, to 480; of 481, to 962."""
    found = slowdown(lambda k: min(k, 500.0))
    assert found([240]).tolist() == [240]
    assert found([480]).tolist() == [480]
    with pytest.raises(InputError, match="is 500 at k = 500 and 500 at k = 501"):
        found([481])


def test_below_one_it_must_increase_and_be_positive():
    """f(1/4) is -1/2 with alpha = 1; and one that is larger than 1 at 1/4 falls up to k = 1."""
    with pytest.raises(InputError, match=r"must be positive for one job alone, but is -0\.5 at k = "
                                         r"max\(k_min, xi1\) = 0\.25; raise k_min"):
        slowdown("linear", alpha=1, xi1=0.25, k_min=0)
    with pytest.raises(InputError, match=r"but is 1\.5 at k = 0\.75 and 1 at k = 1"):
        slowdown(lambda k: max(k, 1.5 * (k < 1)), xi1=0.75, k_min=0)


def test_rounding_is_no_fall():
    """49/49 is not 1 in floats, and the root of both is the same."""
    assert 49 * (1 / 49) < 1
    assert slowdown(np.sqrt, xi1=1 / 49, k_min=0)([49, 196]).tolist() == pytest.approx([1, 2])


def test_options_that_do_not_exist():
    with pytest.raises(UnknownNameError, match="unknown degradation 'cubic'; choose from: linear"):
        slowdown("cubic")
    with pytest.raises(UnknownNameError, match="unknown option of degradation 'power' 'beta'"):
        slowdown("power:beta=2")
    with pytest.raises(InputError, match=r"'table' has no option alpha, so alpha = 0\.2 would"):
        slowdown({"name": "table", "values": [1, 3]}, alpha=0.2)
