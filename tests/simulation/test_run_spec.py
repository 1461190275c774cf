"""A run is described once: calls, simulations and their description have the same arguments."""

import inspect
from dataclasses import MISSING, fields
from decimal import Decimal

import numpy as np
import pytest

import netsim
from netsim.errors import InputError, UnknownNameError
from netsim.simulation.run_spec import NOT_FOR, TARGETS, RunSpec

NET = netsim.big_switch(2, 8.0)
JOBS = [netsim.JobSpec(0, stages=[netsim.Stage("s", [(0, 1, 8.0)])])]

#: Arguments of `simulate` that are not about the run, and those of `Simulation.run`.
NOT_OF_THE_RUN, OF_RUN = {"progress"}, {"until", "progress", "symmetry"}


def defaults_of(call):
    parameters = inspect.signature(call).parameters
    return {name: parameter.default for name, parameter in parameters.items()
            if name not in NOT_OF_THE_RUN}


def test_its_fields_are_the_arguments_of_simulate():
    """By name and default, of `Simulation` as well."""
    own = {each.name: inspect.Parameter.empty if each.default is MISSING else each.default
           for each in fields(RunSpec)}
    assert defaults_of(netsim.simulate) == own
    assert defaults_of(netsim.Simulation) == {
        name: default for name, default in own.items() if name not in OF_RUN}


def test_what_is_given_is_what_differs():
    spec = RunSpec(network=NET, workload=JOBS, allocator="sebf", observe_interval="0s", events=[],
                   epsilon=0, record=["jobs", "links"])
    assert spec.given == ["allocator", "record.links"]
    assert spec.observe_interval == 0.0


@pytest.mark.parametrize("name", [each.name for each in fields(RunSpec) if each.name not in (
    "workload", "record", "events", "stragglers")])
def test_a_run_has_one_of_each(name):
    """Lists are for sweeps; the error carries the argument."""
    with pytest.raises(InputError, match=f"{name}: a run has one, not several") as error:
        RunSpec(**{"network": NET, "workload": JOBS, name: [1, 2]})
    assert error.value.key == name


def test_all_that_is_wrong_is_known_at_once():
    with pytest.raises(InputError, match=r"^seed must be a whole number") as error:
        RunSpec(network=NET, workload=JOBS, seed=-1, until=0, check="yes")
    assert [each.key for each in (error.value, *error.value.others)] == ["seed", "check", "until"]


def test_each_reason_is_of_a_target():
    assert tuple(NOT_FOR) == TARGETS
    assert all(NOT_FOR[target] for target in TARGETS)


def test_defaults_in_another_form_are_not_given():
    """An array without events, a decimal of 0, a set of tables."""
    spec = RunSpec(network=NET, workload=JOBS, events=np.array([]), epsilon=Decimal(0),
                   record={"links", "jobs"})
    assert spec.given == ["record.links"]
    assert (spec.events, spec.epsilon, spec.record) == ((), 0, ("jobs", "links"))
    assert netsim.simulate(NET, JOBS, events=np.array([])).jobs["finish_s"].tolist() == [1.0]


@pytest.mark.parametrize(("wrong", "key"), [
    ({"allocator": "sefb"}, "allocator"), ({"allocator": "aalo:queues=0"}, "allocator"),
    ({"stragglers": {9: 2.0}}, "stragglers"), ({"stragglers": {0: 0.5}}, "stragglers"),
    ({"record": 3}, "record"), ({"record": ["linkz"]}, "record"),
    ({"events": 3}, "events"), ({"scheduler": "fifo"}, "scheduler")])
def test_what_is_wrong_is_known_by_its_argument(wrong, key):
    with pytest.raises(InputError) as error:
        netsim.simulate(NET, JOBS, **wrong)
    assert error.value.key == key


def test_unknown_arguments_of_what_two_have_in_common():
    """`fail` is of the base class of simulations and fabrics, which users do not know."""
    sim = netsim.Simulation(NET, JOBS)
    with pytest.raises(UnknownNameError, match=r"^unknown argument of Simulation\.fail 'hots'"):
        sim.fail(hots=0)
