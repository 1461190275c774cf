"""Agents in place of an allocator."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

import netsim
from netsim.errors import InputError, UnknownNameError

pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env

from netsim.gym import CoflowEnv

NET = netsim.big_switch(6, "8Mbps")


def workload(seed, jobs=6):
    rng = np.random.default_rng(seed)

    def flows(count):
        src, dst = rng.integers(0, 6, count), rng.integers(0, 5, count)
        return [(int(a), int(b + (b >= a)), float(nbytes)) for a, b, nbytes in zip(
            src, dst, rng.uniform(1e5, 8e5, count), strict=True)]
    return netsim.Workload([netsim.JobSpec(
        k, float(at), hosts=range(6), iterations=3,
        stages=[netsim.Stage("a", flows(3)), netsim.Stage("b", flows(2), after=["a"])])
        for k, at in enumerate(np.sort(rng.uniform(0, 2, jobs)))])


def play(env, agent, seed=0):
    """Return the rewards of an episode, and whether it was cut off."""
    seen, _ = env.reset(seed=seed)
    rewards, ended, cut_off = [], False, False
    while not (ended or cut_off):
        seen, reward, ended, cut_off, _ = env.step(agent(seen))
        rewards.append(reward)
    return rewards, cut_off


def smallest_bottleneck(seen):
    return np.where(seen["active"], seen["gamma"], 0.0)


@pytest.mark.parametrize("options", [{}, {"action": "shares"}, {"information": "agnostic"},
                                     {"observe_interval": "100ms"}, {"until": 1.0}])
def test_gymnasium_accepts_it(options):
    check_env(CoflowEnv(NET, workload, coflows=4, **options), skip_render_check=True)


@pytest.mark.parametrize("leftover", ["maxmin", "greedy", "none"])
@pytest.mark.parametrize("interval", [0, "100ms"])
def test_an_agent_that_equals_sebf(leftover, interval):
    env = CoflowEnv(NET, workload(1), coflows=8, leftover=leftover, observe_interval=interval)
    play(env, smallest_bottleneck)
    expected = netsim.simulate(NET, workload(1), observe_interval=interval, allocator={
        "name": "sebf", "work_conservation": leftover})
    np.testing.assert_allclose(env.sim.result().jobs["finish_s"], expected.jobs["finish_s"],
                               rtol=1e-12)


def test_shares_are_scaled_down_to_what_fits():
    """Two coflows on one link of 1 MB/s, of 1 and 3 MB, each asking for all: half each.

    The first ends at 2 s, and the other, with 2 MB left, at 4 s.
    """
    jobs = [netsim.JobSpec(k, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, size)])])
            for k, size in enumerate((1e6, 3e6))]
    env = CoflowEnv(netsim.big_switch(2, "8Mbps"), netsim.Workload(jobs), coflows=2,
                    action="shares")
    play(env, lambda seen: seen["active"].astype(float))
    np.testing.assert_allclose(env.sim.result().jobs["finish_s"], [2, 4])


@pytest.mark.parametrize("pause", [0.0, 1.5])
def test_rewards_add_up_to_completion_times(pause):
    """Also where nothing is active for a while, so that nothing is decided."""
    jobs = [dataclasses.replace(job, arrival_s=job.arrival_s + pause * job.id, iterations=1)
            for job in workload(2).jobs]
    env = CoflowEnv(NET, netsim.Workload(jobs), coflows=3)
    rewards, cut_off = play(env, smallest_bottleneck)
    assert not cut_off
    assert sum(rewards) == pytest.approx(-env.sim.result().coflows["cct_s"].sum())


def test_a_reward_of_ones_own_and_an_end():
    env = CoflowEnv(NET, workload(2), coflows=3, until=1.5,
                    reward=lambda sim, start_s, active: sim.now - start_s)
    rewards, cut_off = play(env, smallest_bottleneck)
    assert cut_off
    assert env.sim.now == 1.5
    assert sum(rewards) == pytest.approx(1.5 - netsim.simulate(
        NET, workload(2), allocator="sebf").coflows["valid_s"].min())


def test_coflows_that_are_not_shown_come_last():
    env = CoflowEnv(NET, workload(3), coflows=1)
    _, info = env.reset(seed=0)
    hidden = 0
    ended = False
    while not ended:
        _, _, ended, _, info = env.step(np.zeros(1))
        hidden = max(hidden, info["hidden"])
    assert hidden > 0
    assert env.sim.result().jobs["finish_s"].notna().all()


def test_the_same_seed_gives_the_same_episode():
    env = CoflowEnv(NET, workload, coflows=4)
    first, _ = play(env, smallest_bottleneck, seed=5)
    assert play(env, smallest_bottleneck, seed=5)[0] == first
    assert play(env, smallest_bottleneck, seed=6)[0] != first


def test_what_is_refused():
    env = CoflowEnv(NET, workload(1), coflows=2, action="shares")
    env.reset(seed=0)
    for action, said in (([0.5], "has 2 numbers"), ([np.nan, 0], "has 2 numbers"),
                         ([1.5, 0], "from 0 to 1")):
        with pytest.raises(InputError, match=said):
            env.step(action)
    with pytest.raises(UnknownNameError, match="unknown action 'rates'"):
        CoflowEnv(NET, workload(1), action="rates")
    with pytest.raises(InputError, match="call reset before"):
        CoflowEnv(NET, workload(1)).step([0.0] * 32)
    with pytest.raises(UnknownNameError, match="unknown information 'x'"):
        CoflowEnv(NET, workload(1), information="x")
    with pytest.raises(InputError, match="reward must be a function"):
        CoflowEnv(NET, workload(1), reward=3)
    with pytest.raises(InputError, match="give the seed to reset"):
        CoflowEnv(NET, workload(1), seed=3)
    with pytest.raises(InputError, match="the agent is the allocator"):
        CoflowEnv(NET, workload(1), allocator="sebf")
    with pytest.raises(InputError, match="at least 1"):
        CoflowEnv(NET, workload(1), coflows=0)


def test_without_gymnasium():
    code = ("import sys; sys.modules['gymnasium'] = None\n"
            "import netsim\n"
            "try: netsim.gym\n"
            "except netsim.MissingExtraError as error: print(error)")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'coflow-netsim[gym]'" in said.stdout
