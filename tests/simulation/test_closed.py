"""Runs that an error has left in the middle of an instant, or that are closed, say so."""

import signal
from unittest import mock

import pytest
import simpy

import netsim
from netsim import InputError, JobSpec, Simulation, Stage
from netsim.allocators.maxmin import MaxMin
from netsim.errors import Interrupted
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.flow_table import FlowTable
from netsim.scripting.run import ProgramRun

NET = netsim.big_switch(2, "8Mbps")
JOBS = [JobSpec(k, arrival_s=5 * k, hosts=range(2), stages=[Stage("a", [(0, 1, 1e6)])])
        for k in range(2)]


class FailsOnce(MaxMin):
    """An allocator that raises an error the first time, and works from then on."""

    def __init__(self, error=ValueError):
        self.error = error

    def allocate(self, view):
        error, self.error = self.error, None
        if error is not None:
            raise error("once")
        return super().allocate(view)


def fails(*_):
    raise ValueError("once")


def policy_fails():
    return Simulation(NET, JOBS, allocator=FailsOnce())


def listener_fails():
    sim = Simulation(NET, JOBS)
    sim.on("coflow-done", fails)
    return sim


def process_fails():
    sim = Simulation(NET, JOBS)

    def process():
        yield sim.env.timeout(0.5)
        fails()

    sim.env.process(process())
    return sim


CALLS = {
    "run": Simulation.run, "result": Simulation.result,
    "active": Simulation.active, "flows": Simulation.flows, "links": Simulation.links,
    "jobs": Simulation.jobs, "view": Simulation.view, "fork": Simulation.fork,
    "now": lambda sim: sim.now, "env": lambda sim: sim.env,
    "events": lambda sim: next(sim.events()), "submit": lambda sim: sim.submit(JOBS[0]),
    "set_capacity": lambda sim: sim.set_capacity("egress-0", 5),
    "fail": lambda sim: sim.fail(link="egress-0"),
    "allocator": lambda sim: setattr(sim, "allocator", "sebf"),
    "on": lambda sim: sim.on("coflow-done", print)}


def assert_closed(sim, match):
    for call in CALLS.values():
        with pytest.raises(InputError, match=match):
            call(sim)
    assert repr(sim) == "<Simulation, closed>"
    assert "closed" in sim._repr_html_()


@pytest.mark.parametrize("make", [policy_fails, listener_fails, process_fails])
@pytest.mark.parametrize("go_on", [Simulation.run, lambda sim: list(sim.events())])
def test_an_error_in_the_middle_of_an_instant_closes_the_run(make, go_on):
    sim = make()
    with pytest.raises(ValueError, match="once"):
        go_on(sim)
    closed = r"the run is closed: .* by ValueError: once\nMake a new Simulation"
    assert_closed(sim, closed)
    sim.close()  # as in a ``finally``, which does not hide the error
    sim.close()
    assert_closed(sim, closed)


def test_ctrl_c_closes_the_run_and_says_when():
    """In a listener, at 1 s: the instant is known, so that this needs no luck."""
    sim = Simulation(NET, JOBS)
    sim.on("coflow-done", lambda _: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        with pytest.raises(Interrupted):
            sim.run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert_closed(sim, "at 1 s, by KeyboardInterrupt")


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C as a change has been made, and before rates follow it."""
    monkeypatch.setattr(FabricProcess, "_adapt", mock.Mock(side_effect=KeyboardInterrupt))


@pytest.mark.parametrize("change", [
    lambda sim: sim.set_capacity("egress-0", 5), lambda sim: sim.fail(link="egress-0"),
    lambda sim: setattr(sim, "allocator", "sebf"), lambda sim: setattr(sim, "observe_interval", 1)])
def test_ctrl_c_in_a_change_closes_the_run(change, interrupted):
    sim = Simulation(NET, JOBS).run(until=0.5)
    with pytest.raises(KeyboardInterrupt):
        change(sim)
    assert_closed(sim, "at 0.5 s, by KeyboardInterrupt")


@pytest.mark.parametrize(("at", "change"), [
    ((FabricProcess, "_adapt"), lambda fabric: fabric.set_capacity("egress-0", 5)),
    ((FabricProcess, "advance_to_now"), lambda fabric: fabric.fail(link="egress-0")),
    ((FlowTable, "set_capacities"), lambda fabric: fabric.repair(link="egress-0")),
    ((ProgramRun, "_withdraw"), lambda fabric: fabric.fail(host=0)),
    ((FlowTable, "add_job"), lambda fabric: fabric.job()),
    ((FabricProcess, "send"), lambda fabric: fabric.transfer(1, 0, 5))])
def test_ctrl_c_in_a_change_closes_a_fabric(at, change, monkeypatch):
    env = simpy.Environment()
    fabric = netsim.Fabric(env, NET)
    fabric.transfer(0, 1, 1e6)
    env.run(until=0.5)
    monkeypatch.setattr(*at, mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        change(fabric)
    with pytest.raises(InputError, match=r"at 0.5 s, by KeyboardInterrupt"):
        env.run()


def test_a_call_that_is_wrong_closes_no_fabric():
    env = simpy.Environment()
    fabric = netsim.Fabric(env, NET)
    with pytest.raises(TypeError):
        fabric.coflow()
    coflow = fabric.transfer(0, 1, 1e6)
    env.run()
    assert coflow.finish_s == 1


def test_an_error_of_a_listener_in_a_change_closes_the_run():
    """Of whatever class: an argument that the listener got wrong, say."""
    sim = Simulation(NET, JOBS).run(until=0.5)
    sim.on("capacity", lambda _: sim.fail(link="typo"))
    with pytest.raises(InputError, match="typo"):
        sim.set_capacity("egress-0", 5)
    assert_closed(sim, "at 0.5 s, by UnknownNameError|at 0.5 s, by InputError")


def test_events_of_a_closed_run():
    sim = Simulation(NET, JOBS)
    events = sim.events()
    next(events)
    sim.close()
    with pytest.raises(InputError, match=r"closed, by close\(\)"):
        list(events)


def test_a_fork_made_before_goes_on():
    straight = netsim.simulate(NET, JOBS).jobs
    sim = Simulation(NET, JOBS).run(until=0.5)
    other = sim.fork()
    sim.on("coflow-done", fails)
    with pytest.raises(ValueError, match="once"):
        sim.run()
    assert other.run().result().jobs.equals(straight)


def test_close_closes_the_run_and_keeps_its_results():
    sim = Simulation(NET, JOBS).run()
    result = sim.result()
    sim.close()
    assert_closed(sim, r"the run is closed, by close\(\)")
    with pytest.raises(InputError, match=r"the run is closed, by close\(\)"):
        sim.close()
    assert result.jobs["finish_s"].tolist() == [1, 6]


def test_what_is_refused_between_two_instants_closes_nothing():
    """An error in an argument, a progress report that raises, and a run that has nothing to do."""
    straight = netsim.simulate(NET, JOBS).jobs
    sim = Simulation(NET, JOBS).run(until=0.5)
    with pytest.raises(InputError, match="no-link"):
        sim.set_capacity("no-link", 5)
    with pytest.raises(ValueError, match="once"):
        sim.run(progress=fails)
    assert sim.run().result().jobs.equals(straight)


def test_a_stalled_run_goes_on_after_a_repair():
    """1 MB at 1 MB/s: half of it before the failure at 0.5 s, half within 0.5 s of the repair."""
    sim = Simulation(NET, JOBS[:1]).run(until=0.5)
    sim.fail(link="egress-0")
    with pytest.raises(netsim.StalledError):
        sim.run()
    end = sim.now + 0.5
    sim.repair(link="egress-0")
    assert sim.run().result().jobs["finish_s"].tolist() == [end]


def test_an_error_of_the_allocator_closes_a_fabric():
    """A process of SimPy would otherwise wait for its coflow for ever, without a word."""
    env = simpy.Environment()
    fabric = netsim.Fabric(env, NET, allocator=FailsOnce())
    fabric.transfer(0, 1, 1e6)
    with pytest.raises(ValueError, match="once"):
        env.run()
    closed = r"the fabric is closed: .* by ValueError: once\nMake a new environment"
    for call in (env.run, fabric.active, fabric.result, lambda: fabric.transfer(0, 1, 5)):
        with pytest.raises(InputError, match=closed):
            call()
