"""Errors of a user's own policies: who, when, what, and the user's own frames alone."""

import sys

import pytest

import netsim as api

MODULE = """\
import netsim
import numpy as np


class Typo(netsim.Allocator):
    def allocate(self, view):
        if view.now > 1:
            return _order(view)
        return netsim.Allocation(order=np.arange(len(view)))


def _order(view):
    return view.totl


class Writes(netsim.Allocator):
    def allocate(self, view):
        view.remaining[:] = 0


class Lacks(netsim.Allocator):
    def alocate(self, view):
        return None


class Waits:
    def decide(self, view):
        return 1 / 0
"""


@pytest.fixture
def module(here, monkeypatch):
    """Write the user's module; return its path."""
    (here / "own_policies.py").write_text(MODULE)
    monkeypatch.syspath_prepend(here)
    monkeypatch.delitem(sys.modules, "own_policies", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return here / "own_policies.py"


def test_a_typo_in_an_allocator(netsim, module):
    done = netsim("run", "fig2.toml", "--allocator", "own_policies:Typo")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "error: allocator Typo at 6 s of the simulation: AttributeError: 'FabricView' object has "
        "no attribute 'totl'",
        f'  File "{module}", line 8, in allocate',
        "    return _order(view)",
        f'  File "{module}", line 13, in _order',
        "    return view.totl"]


def test_a_write_to_the_view(netsim, module):
    done = netsim("run", "fig2.toml", "--allocator", "own_policies:Writes")
    assert done.exit_code == 1
    first, place, line, *_ = done.stderr.splitlines()
    assert first == ("error: allocator Writes at 0 s of the simulation: ValueError: assignment "
                     "destination is read-only")
    assert (place, line) == (f'  File "{module}", line 18, in allocate',
                             "    view.remaining[:] = 0")


def test_without_allocate_an_allocator_is_refused_at_once(refused, module):
    assert refused("run", "fig2.toml", "--allocator", "own_policies:Lacks").startswith(
        "fig2.toml: allocator.name: allocator Lacks has no method allocate(view), which returns a "
        "netsim.Allocation (did you mean 'alocate'?)")


def test_a_scheduler(netsim, module, here):
    (here / "c.toml").write_text('scheduler = "own_policies:Waits"\n[cluster]\nservers = 1\n'
                                 'gpus = 4\n[workload]\nname = "parrot-fig2"\n')
    done = netsim("run", "c.toml")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: scheduler Waits")
    assert "ZeroDivisionError: division by zero\n" in done.stderr
    assert "simpy" not in done.stderr


def test_a_comparison_that_fails_says_what_is_lost(netsim, module, here):
    before = sorted(here.rglob("*.csv"))
    done = netsim("compare", "fig2.toml", "--allocator", "sebf,own_policies:Typo,maxmin")
    assert (done.exit_code, done.stdout) == (1, "")
    *_, failed, lost = done.stderr.splitlines()
    assert failed == "the run of own_policies:Typo failed"
    assert lost.startswith("lost: what had ended (sebf), as a comparison keeps nothing before its "
                           "end; netsim sweep FILE --vary allocator=... keeps runs that have ended")
    assert sorted(here.rglob("*.csv")) == before


def test_in_python_the_exception_stays_as_it_is(module):
    import own_policies

    with pytest.raises(AttributeError) as caught:
        api.compare("parrot-fig2", "parrot-fig2", ["sebf", own_policies.Typo])
    assert str(caught.value) == "'FabricView' object has no attribute 'totl'"


def test_errors_of_netsim_itself_keep_their_traceback(netsim, monkeypatch):
    from netsim.simulation import simulation

    monkeypatch.setattr(simulation.Simulation, "_begin", None)
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        netsim("run", "fig2.toml")
