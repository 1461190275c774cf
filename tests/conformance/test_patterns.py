"""`check_pattern` on every pattern, and on broken ones that it must catch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from netsim import InputError, Stage
from netsim.jobs.patterns import PATTERNS
from netsim.testing import check_pattern

#: With every option that changes what is sent; and what that is, of w ranks and m bytes, where it
#: is not drawn.
VARIANTS = [
    ("all-to-all", lambda w, m: (w - 1) * m), ({"name": "all-to-all", "sizes": "uniform"}, None),
    ("parameter-server", None),
    ({"name": "parameter-server", "servers": 2}, None),
    ({"name": "parameter-server", "sizes": "split"}, lambda w, m: 2 * (w - w // 2) * m),
    ({"name": "parameter-server", "sizes": "split", "servers": 3}, lambda w, m: 2 * (w - 3) * m),
    ({"name": "parameter-server", "staleness": 2}, None),
    ({"name": "parameter-server", "sizes": "split", "staleness": 1},
     lambda w, m: 2 * (w - w // 2) * m),
    ({"name": "parameter-server", "sizes": "split", "staleness": "unbounded"},
     lambda w, m: 2 * (w - w // 2) * m),
    ("ring-all-reduce", lambda w, m: 2 * (w - 1) * m),
    ({"name": "ring-all-reduce", "stepwise": True}, lambda w, m: 2 * (w - 1) * m),
]


@pytest.mark.parametrize(("pattern", "total"), VARIANTS)
def test_keeps_its_promises(pattern, total):
    check_pattern(pattern, total=total)


@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern_keeps_its_promises(name):
    """Those that are added, too."""
    check_pattern(name, ranks=[1, 2, 3, 8, 33])


# --- broken patterns, one or more for each promise ----------------------------------------------


def of(answer):
    """A pattern that answers as a function of (ranks, nbytes, rng) says."""
    class Broken:
        def stages(self, ranks, nbytes, rng):
            return answer(ranks, nbytes, rng)
    return Broken()


def chain(ranks, nbytes, rng=None, **options):
    """Each rank sends to the next."""
    return [Stage("chain", [(rank, rank + 1, nbytes) for rank in range(ranks - 1)], **options)]


def refuse(ranks, nbytes, rng):
    raise InputError("there are never the right ranks")


COUNT = itertools.count()
BROKEN = [
    (lambda w, m, rng: None, "does not return stages: it returned None, for 1 rank and"),
    (lambda w, m, rng: [], "does not return stages"),
    (lambda w, m, rng: [[(0, 1, m)]], "does not return stages"),
    (lambda w, m, rng: chain(w, m, coflow_id=3), "sets coflow ids: stage 'chain' has the"),
    (lambda w, m, rng: [Stage("a", after=["b"]), Stage("b", after=["a"])],
     "returns stages with invalid dependencies: an iteration: dependency cycle among stages a, b"),
    (lambda w, m, rng: [Stage("a"), Stage("a")],
     "invalid dependencies: an iteration: two stages are named"),
    (lambda w, m, rng: [Stage("a", after=["z"])],
     "invalid dependencies: an iteration: stage 'a' depends on"),
    (lambda w, m, rng: chain(w + 1, m), "ranks that do not exist: stage 'chain' has a flow "
                                        "from or to rank 1, for 1 rank and 1e.06 bytes"),
    (lambda w, m, rng: [Stage("a", [(0, 0, m * np.random.random())])],  # noqa: NPY002
     "is not a function of its arguments: asked again"),
    (lambda w, m, rng: [Stage(f"a{next(COUNT)}")], "is not a function of its arguments"),
    (lambda w, m, rng: chain(w, m) * 1 + [Stage(f"b{k}") for k in range(rng.integers(9))],
     "has different stages for the same number of ranks: with another seed they are"),
    (lambda w, m, rng: chain(w, m) + [Stage("more")] * (m > 1.5e6),
     "has different stages for the same number of ranks: with 4096 times the bytes"),
    (lambda w, m, rng: chain(w, m) + [Stage("more")] * (m > 1e8),
     "has different stages for the same number of ranks: with 4096 times the bytes"),
    (lambda w, m, rng: chain(w, -m), r"makes an invalid stage: flow 0 has -1000000.0 bytes; "
                                     r".*, for 2 ranks and"),
    (lambda w, m, rng: chain(w, m if w < 5 else np.nan), "flow 0 has nan bytes; .*, for 5 ranks"),
    (lambda w, m, rng: chain(w, m + 64), r"depends on the unit of bytes \(declare scale_free = "
                                         "False.*: for 4096 times as many bytes flows of stage"),
    (refuse, r"refuses all of \[1, 2, 3, 4, 5, 6, 7, 8, 9\] ranks, the last with: there are "),
]


@pytest.mark.parametrize(("answer", "message"), BROKEN)
def test_a_broken_promise_is_caught(answer, message):
    with pytest.raises(AssertionError, match=message) as error:
        check_pattern(of(answer))
    assert str(error.value).startswith("pattern ")


def test_a_total_that_is_not_kept():
    with pytest.raises(AssertionError, match=r"does not send the expected total: its flows have "
                                             r"1000000 bytes in total, not 2000000, for 2 ranks"):
        check_pattern(of(chain), total=lambda w, m: 2 * (w - 1) * m)
    check_pattern(of(chain), total=lambda w, m: (w - 1) * m)


def test_what_depends_by_design_may_be_declared():
    class Headers:
        scale_free = False

        def stages(self, ranks, nbytes, rng):
            return chain(ranks, nbytes + 64)

    check_pattern(Headers)


def test_an_exception_passes_through_with_the_ranks():
    with pytest.raises(ZeroDivisionError) as error:
        check_pattern(of(lambda w, m, rng: chain(w, m / (w - 1))))
    assert error.value.__notes__ == ["for 1 rank and 1e+06 bytes; a pattern refuses a number of "
                                     "ranks with an InputError"]


def test_some_ranks_may_be_refused():
    def even(ranks, nbytes, rng):
        if ranks % 2:
            raise InputError(f"ranks must be even, not {ranks}")
        return chain(ranks, nbytes)

    check_pattern(of(even))
    with pytest.raises(AssertionError, match=r"refuses all of \[1, 3\] ranks, the last with: "
                                             "ranks must be even, not 3"):
        check_pattern(of(even), ranks=[1, 3])


def test_stages_may_be_yielded():
    check_pattern(of(lambda w, m, rng: (stage for stage in chain(w, m))))


def test_what_is_no_pattern_is_refused():
    with pytest.raises(InputError, match="is not a pattern: it needs a method stages"):
        check_pattern(object())
