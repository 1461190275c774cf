"""`check_placement` on every placement, and on broken ones that it must catch."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from netsim.errors import InputError, UnknownNameError
from netsim.placements.placement import FirstFit, first_of
from netsim.placements.registry import PLACEMENTS
from netsim.testing import check_placement
from tests.examples import examples

OPTIONS = ["least-busy-servers:lam=2", "mapped:servers=most", "mapped:servers=least",
           "mapped:mapping=random", "mapped:mapping=round-robin", "random:seed=3"]


@pytest.mark.parametrize("placement", [*PLACEMENTS, *OPTIONS])
def test_keeps_its_promises(placement):
    check_placement(placement, examples=examples(25))


# --- broken placements, one or more for each promise --------------------------------------------


class Any_:
    """Base of those that are right but for one thing."""

    def scope(self, cluster, job, load):
        return np.arange(cluster.total)

    def choose(self, cluster, job, candidates, load):
        return first_of(cluster, job, candidates)


class Blind(Any_):
    def choose(self, cluster, job, candidates, load):
        return np.arange(job.ranks)


class Generous(Any_):
    def choose(self, cluster, job, candidates, load):
        return candidates


class Doubling(Any_):
    def choose(self, cluster, job, candidates, load):
        return np.repeat(candidates[:1], job.ranks)


class Beyond(Any_):
    def scope(self, cluster, job, load):
        return np.arange(cluster.total + 1)


class Careless(Any_):
    def choose(self, cluster, job, candidates, load):
        return candidates[:job.ranks]


class Promising(Any_):
    def choose(self, cluster, job, candidates, load):
        chosen = first_of(cluster, job, candidates)
        load[candidates] += 1
        return chosen


class Sorting(Any_):
    def choose(self, cluster, job, candidates, load):
        candidates[:] = candidates[::-1]
        return first_of(cluster, job, candidates)


class Dice(Any_):
    thrown = random.Random(7)

    def choose(self, cluster, job, candidates, load):
        return first_of(cluster, job, np.array(self.thrown.sample(candidates.tolist(),
                                                                  len(candidates))))


class Counting(Any_):
    asked = itertools.count()

    def __deepcopy__(self, memo):
        return self

    def choose(self, cluster, job, candidates, load):
        return first_of(cluster, job, np.roll(candidates, next(self.asked)))


class OneServer(Any_):
    """Waits for a server that has enough, though there may be none."""

    def choose(self, cluster, job, candidates, load):
        for server in range(cluster.servers):
            own = candidates[cluster.server_of[candidates] == server]
            if len(own) >= job.ranks:
                return first_of(cluster, job, own)
        return None


class PicksOthers(FirstFit):
    def pick(self, cluster, job, free, free_on):
        found = np.flatnonzero(free)[::-1]
        return first_of(cluster, job, found) if len(found) >= job.ranks else None


class Refusing(Any_):
    def suits(self, setting):
        raise InputError("no cluster is good enough")


BROKEN = [
    (Blind, "breaks a rule: placement Blind: choose must return GPUs"),
    (Generous, "breaks a rule: placement Generous: choose must return GPUs"),
    (Doubling, "breaks a rule: placement Doubling: choose must return .* each once"),
    (Beyond, "breaks a rule: placement Beyond: scope must return GPUs"),
    (Careless, r"breaks a rule: placement Careless, for job 0: replicas .*first_of, or declare "
               r"keeps_slices = False, on the example\nCluster\(gpus=\[1, 2\]\)\njob 0: 2 "),
    (Promising, "changes its arguments: load changed"),
    (Sorting, "changes its arguments: candidates changed"),
    (Dice, "is not deterministic: jobs get the GPUs .* when it is asked again"),
    (Counting, "is not deterministic"),
    (OneServer, "leaves a job waiting on an idle cluster: job 0 gets none though all GPUs are"),
    (PicksOthers, r"has a pick that disagrees with choose: for job 0 it picks \[1\] but chooses "),
    (Refusing, "refuses all of 100 examples, the last with: placement 'Refusing': no cluster is "),
]


@pytest.mark.parametrize(("kind", "message"), BROKEN, ids=lambda each: getattr(
    each, "__name__", "-"))
def test_a_broken_promise_is_caught(kind, message):
    with pytest.raises(AssertionError, match=message) as error:
        check_placement(kind)
    assert f"placement {kind.__module__}:{kind.__name__} " in str(error.value)


def test_the_example_is_small():
    with pytest.raises(AssertionError) as error:
        check_placement(OneServer())
    said = str(error.value).partition("on the example\n")[2].splitlines()
    assert said[0] == "Cluster(gpus=[1, 1])"
    assert said[1].startswith("job 0: 2 GPUs, arrival_s=0, ")
    assert said[2] == "GPUs [] are taken, and all have been promised [0.0, 0.0] s"


def test_what_it_is_not_for_may_be_declared():
    class NoSlices(Careless):
        keeps_slices = False

    check_placement(NoSlices, examples=examples(50))
    check_placement(Any_(), examples=examples(20))


def test_an_exception_passes_through_with_the_example():
    class Hasty(Any_):
        def choose(self, cluster, job, candidates, load):
            cluster.gpus[0] = 5

    with pytest.raises(ValueError, match="read-only") as error:
        check_placement(Hasty())
    assert error.value.__notes__[0].startswith("on the example\nCluster(gpus=[")


def test_what_is_no_placement_is_refused():
    with pytest.raises(InputError, match="is no placement: it needs methods scope and choose"):
        check_placement(object())
    with pytest.raises(UnknownNameError, match="unknown placement 'first'"):
        check_placement("first")
