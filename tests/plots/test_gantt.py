"""The Gantt chart: what is drawn, not how it looks."""

import numpy as np
import pytest
import simpy

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.errors import InputError, MissingExtraError
from netsim.plots import style
from netsim.plots.gantt import gantt
from netsim.plots.spans import IDLE
from netsim.plots.style import COLOURS

pytestmark = pytest.mark.usefixtures("matplotlib")

MB = 1e6
NET = netsim.big_switch(3, MB)


def run(*jobs, **settings):
    return netsim.simulate(NET, Workload(list(jobs)), allocator="fifo", **settings)


def job(number, arrival=0.0, *stages, **settings):
    return JobSpec(number, arrival, stages=stages, hosts=range(3), **settings)


def to_rgb(colour):
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def bars(ax):
    """Return (kind, row, from, to) of all bars, by the colour of the legend."""
    legend = ax.get_legend()
    kinds = {(*to_rgb(IDLE), 1.0): "no coflow"} | {
        patch.get_facecolor(): text.get_text() for patch, text
        in zip(legend.get_patches(), legend.get_texts(), strict=True)}
    found = []
    for collection in ax.collections:
        for path in collection.get_paths():
            low, high = path.vertices.min(axis=0), path.vertices.max(axis=0)
            kind = kinds[tuple(collection.get_facecolor()[0])]
            found.append((kind, round((low[1] + high[1]) / 2, 3), round(float(low[0]), 6),
                          round(float(high[0]), 6)))
    return sorted(found)


def texts(items):
    return [item.get_text() for item in items]


def test_rows_show_life_waiting_and_coflows():
    """1 MB in [0.5, 1.5] and again; the other, valid at 0.5, waits until the first is through."""
    one = job(1, 0.25, Stage("c", [(0, 1, MB)], compute_s=0.25))
    ax = gantt(run(job(0, 0.0, Stage("c", [(0, 1, MB)], compute_s=0.25), name="vgg"), one))
    assert bars(ax) == [
        ("c", 0, 0.25, 1.25), ("c", 1, 1.25, 2.25),
        ("no coflow", 0, 0, 1.25), ("no coflow", 1, 0.25, 2.25), ("waiting", 1, 0.5, 1.25)]
    assert texts(ax.get_yticklabels()) == ["0 vgg", "1"]
    low, high = ax.get_ylim()
    assert low > 1 > 0 > high
    assert ax.get_xlabel() == "time (s)"


def test_coflows_that_do_not_finish_are_not_taken_for_none():
    """From 1 s on, one is on its way: it is cancelled at 2 s."""
    env = simpy.Environment()
    fabric = netsim.Fabric(env, NET)

    def training():
        job = fabric.job("a")
        yield env.timeout(1)
        push = fabric.coflow([(0, 1, 8 * MB)], job=job)
        yield push | env.timeout(1)
        push.cancel()
        yield fabric.transfer(1, 0, MB, job=job)
        job.end()

    env.process(training())
    env.run()
    ax = gantt(fabric.result())
    assert texts(ax.get_legend().get_texts()) == ["transfer", "did not finish", "no coflow"]
    hatched = [path.vertices[:, 0] for each in ax.collections if each.get_hatch() == "////"
               for path in each.get_paths()]
    assert [(low.min(), low.max()) for low in hatched] == [(1, 2)]


def test_the_worked_example():
    ax = gantt(netsim.simulate("parrot-fig2", "parrot-fig2", allocator="parrot"))
    assert bars(ax) == [
        ("c0", 0, 0, 16), ("c0", 1, 0, 4), ("c1", 0, 16, 28), ("c1", 1, 4, 12.888889),
        ("no coflow", 0, 0, 28), ("no coflow", 1, 0, 12.888889)]
    assert texts(ax.get_legend().get_texts()) == ["c0", "c1"]  # no job is without


def test_coflows_at_once_share_the_height():
    """Two in parallel, then one, which has the first lane."""
    ax = gantt(run(job(0, 0.0, Stage("a", [(0, 1, MB)]), Stage("b", [(1, 2, 2 * MB)]),
                       Stage("c", [(0, 1, MB)], after=["a", "b"]))))
    rows = {kind: row for kind, row, *_ in bars(ax)}
    assert rows == {"a": -0.21, "b": 0.21, "c": -0.21, "no coflow": 0}


def test_many_jobs_are_the_first_or_the_longest():
    result = run(*(job(number, float(number), Stage("c", [(0, 1, (1 + number % 3) * MB)]))
                   for number in range(9)))
    first = gantt(result, jobs=4)
    assert texts(first.get_yticklabels()) == ["0", "1", "2", "3"]
    assert first.get_xlabel() == "time (s); the first 4 of 9 jobs"
    longest = gantt(result, jobs=2, longest=True)
    expected = sorted(result.jobs.nlargest(2, "jct_s")["job"].astype(str))
    assert texts(longest.get_yticklabels()) == expected
    assert longest.get_xlabel() == "time (s); the longest 2 of 9 jobs"


def test_a_stopped_job_lasts_to_the_stop():
    """Its second coflow has not completed, and is not recorded."""
    result = run(job(0, 0.0, Stage("c", [(0, 1, MB)]), iterations=2),
                 job(1, 9.0, Stage("c", [(0, 1, MB)])), until=1.5)
    assert bars(gantt(result)) == [("c", 0, 0, 1), ("no coflow", 0, 0, 1.5)]


def test_many_iterations_are_a_band():
    """3,000 of 1 ms each after as long a computation: no gap between them can be seen."""
    result = run(job(0, 0.0, Stage("c", [(0, 1, 1e3)], compute_s=0.001), iterations=3000))
    ax = gantt(result)
    assert bars(ax) == [("no coflow", 0, 0, pytest.approx(6))]
    band, = ax.images
    assert band.get_array().shape[1] <= 151
    assert band.get_extent()[:2] == pytest.approx([0.001, 6])


def test_many_stages_have_one_colour():
    stages = [Stage(f"s{k}", [(0, 1, MB)], after=[f"s{k - 1}"] if k else ()) for k in range(7)]
    ax = gantt(run(job(0, 0.0, *stages)))
    assert bars(ax) == [*(("coflow", 0, k, k + 1) for k in range(7)), ("no coflow", 0, 0, 7)]
    assert len(bars(gantt(run(job(0, 0.0, *stages[:6]))))) == 7


def test_jobs_that_take_no_time():
    ax = gantt(run(job(0, 2.0, Stage("c", [(0, 1, 0)]))))
    assert bars(ax) == [("no coflow", 0, 2, 2)]
    assert ax.get_xlim() == (1.99, 3.01)


def test_an_axes_may_be_given():
    ax = style.new_axes(2.0)
    assert gantt(run(job(0, 0.0, Stage("c", [(0, 1, MB)]))), ax) is ax


def test_what_cannot_be_drawn(monkeypatch):
    result = run(job(0, 5.0, Stage("c", [(0, 1, MB)])), until=1)
    with pytest.raises(InputError, match="nothing to draw: no job has arrived"):
        gantt(result)
    for wrong in (0, True, 1.5):
        with pytest.raises(InputError, match=f"jobs must be a whole number .* not {wrong!r}"):
            gantt(result, jobs=wrong)
    assert gantt(run(job(0, 0.0, Stage("c", [(0, 1, MB)]))), jobs=np.int64(1))
    bare = run(job(0, 0.0, Stage("c", [(0, 1, MB)])), record=["jobs"])
    with pytest.raises(InputError, match=r"coflows were not recorded; .*record=\['jobs', 'cof"):
        gantt(bare)
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"matplotlib is not installed.*\[plot\]"):
        gantt(result)


def test_overheads_and_tails_are_lighter():
    """1 s of overhead, 1 s to send 1 MB, which takes 2 s to arrive; the second waits for 1 s."""
    net = netsim.big_switch(3, MB, latency="1s", overhead="1s")
    jobs = [job(k, 0.0, Stage("c", [(k, 2, MB)])) for k in range(2)]
    ax = gantt(netsim.simulate(net, Workload(jobs), allocator="fifo"))
    assert [bar for bar in bars(ax) if bar[0] != "no coflow"] == [
        ("c", 0, 1, 2), ("c", 1, 2, 3), ("overhead, tail", 0, 0, 1), ("overhead, tail", 0, 2, 4),
        ("overhead, tail", 1, 0, 1), ("overhead, tail", 1, 3, 5), ("waiting", 1, 1, 2)]


# --- bands of density ------------------------------------------------------------------------


def test_coflows_too_narrow_to_be_seen_are_a_band_per_stage():
    """200 iterations of 2 s on one job, and one of 100 ks on another: each stage half the time."""
    jobs = Workload([
        JobSpec(0, iterations=200, hosts=range(2), stages=[
            Stage("push", [(0, 1, MB)]), Stage("pull", [(1, 0, MB)], after=["push"])]),
        JobSpec(1, hosts=[2, 3], stages=[Stage("push", [(0, 1, 1e5 * MB)])])])
    ax = gantt(netsim.simulate(netsim.big_switch(4, MB), jobs))
    push, pull = ax.images
    for band, colour in ((push, COLOURS[0]), (pull, COLOURS[1])):
        half = (1 - 0.5**0.5) * np.array(to_rgb(IDLE)) + 0.5**0.5 * np.array(to_rgb(colour))
        np.testing.assert_allclose(band.get_array()[0], [half] * band.get_array().shape[1])
        assert band.get_extent()[:2] == [0, 400]
    assert push.get_extent()[2] == pull.get_extent()[3]  # one below the other
    assert "part of the time" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert ax.get_ylim() == (1.6, -0.6)


def test_too_many_coflows_at_once_are_a_band():
    """It is of full colour: at any time, at least one of 30 is under way."""
    job = JobSpec(0, hosts=range(2), stages=[Stage(f"s{k}", [(0, 1, MB)]) for k in range(30)])
    ax = gantt(netsim.simulate(netsim.big_switch(2, MB), [job]))
    np.testing.assert_allclose(ax.images[0].get_array(), np.broadcast_to(
        to_rgb(COLOURS[0]), ax.images[0].get_array().shape))


def test_a_cancelled_coflow_is_drawn_until_then():
    """Of 5 MB, 3 are sent; the job has ended with it, at 3 s."""
    env = simpy.Environment()
    fabric = netsim.Fabric(env, netsim.big_switch(2, "1MB/s"))
    push = fabric.transfer(0, 1, 5e6)
    env.run(3)
    push.cancel()
    ax = gantt(fabric.result())
    ends = [bars.get_datalim(ax.transData).x1 for bars in ax.collections]
    assert [end for end in ends if np.isfinite(end)] == [3.0, 3.0]  # the job, and its coflow
