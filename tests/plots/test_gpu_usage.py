"""GPUs in use and jobs that wait, over time: what is drawn, not how it looks."""

import numpy as np
import pytest

import netsim
from netsim import Cluster, JobSpec
from netsim.errors import InputError, MissingExtraError, NotRecordedError, UnknownNameError
from netsim.plots import style
from netsim.plots.curves import thin_steps
from netsim.plots.gpu_usage import usage_areas, usage_curves

pytestmark = pytest.mark.usefixtures("matplotlib")

CONTINUOUS = {"name": "rar-contention", "time": "continuous"}


def run(*sizes, scheduler="fifo", **given):
    """Run jobs of some (GPUs, seconds), one arriving each second, on three GPUs."""
    jobs = [JobSpec(k, float(k), ranks=gpus, nbytes=0, compute_s=seconds,
                    pattern="ring-all-reduce")
            for k, (gpus, seconds) in enumerate(sizes)]
    return netsim.simulate(Cluster(gpus=[3]), jobs, scheduler=scheduler, execution=CONTINUOUS,
                           **given)


def outline(area):
    """Return the corners at the upper edge of an area, from left to right."""
    found = []
    for x, y in area.get_paths()[0].vertices:
        if y > 0 and (x, y) not in found:
            found.append((float(x), float(y)))
    return sorted(found)


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_areas_of_a_run():
    """Two GPUs for [0, 4]; a job of three waits from 1 to 4 and runs until 6."""
    gpus, jobs = usage_areas(run((2, 4), (3, 2)))
    assert outline(gpus.collections[0]) == [(0, 2), (1, 2), (4, 2), (4, 3), (6, 3)]
    assert outline(jobs.collections[0]) == [(1, 1), (4, 1)]
    assert legend(gpus) == ["held by jobs", "all 3 GPUs"]
    assert gpus.lines[0].get_ydata() == [3, 3]
    assert (gpus.get_ylabel(), jobs.get_ylabel(), jobs.get_xlabel()) == (
        "GPUs held", "jobs waiting", "time (s)")


def test_where_no_job_waits_there_is_no_panel_for_it():
    result = run((2, 4))
    [gpus] = usage_areas(result)
    assert (gpus.get_ylabel(), gpus.get_xlabel(), len(gpus.figure.axes)) == (
        "GPUs held", "time (s)", 1)
    assert len(usage_curves({"a": result})) == 1
    assert len(result.plot("gpus").figure.axes) == 1
    [jobs] = usage_areas(result, "waiting")
    assert jobs.get_ylim() == (0, 1)


def test_pauses_are_lighter():
    """The first job's state is restored until 1."""
    result = run((2, 4))
    result = result.replace(gpus=result.gpus.assign(run_s=1.0))
    [gpus] = usage_areas(result)
    held, running = gpus.collections
    assert outline(held) == [(0, 2), (1, 2), (4, 2)]
    assert outline(running) == [(1, 2), (4, 2)]
    assert legend(gpus) == ["running", "restoring or saving", "all 3 GPUs"]


def test_curves_of_several_runs():
    """By size, the job of one GPU goes before that of three."""
    sizes = (2, 4), (3, 2), (1, 1)
    results = {name: run(*sizes, scheduler=name) for name in ("fifo", "sjf")}
    gpus, jobs = usage_curves(results)
    drawn = {line.get_label(): line.get_xydata().tolist() for line in jobs.lines}
    assert drawn == {
        "fifo": [[0, 0], [1, 1], [2, 2], [4, 1], [6, 0], [7, 0]],
        "sjf": [[0, 0], [1, 1], [2, 1], [3, 1], [4, 0], [6, 0]]}
    assert legend(gpus) == ["fifo", "sjf", "all 3 GPUs"]
    assert gpus.get_ylabel() == "GPUs held"
    later = {name: each.replace(gpus=each.gpus.assign(run_s=each.gpus["start_s"] + 0.5))
             for name, each in results.items()}
    assert usage_curves(later, "running")[0].lines[0].get_xydata()[0].tolist() == [0, 0]


def test_means_keep_the_area():
    """Of steps up and down, over intervals that do not divide their length."""
    times = np.cumsum(np.r_[0, np.random.default_rng(1).exponential(1, 2000)])
    values = np.arange(2001) % 7.0
    area = (values[:-1] * np.diff(times)).sum()
    for intervals in (60, 200):
        at, means = thin_steps(times, values, times[-1] * 1.3, 400, intervals)
        assert len(at) <= intervals + 1
        assert (means[:-1] * np.diff(at)).sum() == pytest.approx(area)
        assert (at[0], at[-1], means[-1]) == (times[0], times[-1], values[-1])
    assert thin_steps(times[:400], values[:400], 10.0)[1].tolist() == values[:400].tolist()


def test_what_cannot_be_drawn(monkeypatch):
    result = run((1, 1))
    with pytest.raises(UnknownNameError, match=r"count of GPUs 'idle'.*: held, running"):
        usage_curves({"a": result}, "idle")
    with pytest.raises(InputError, match="nothing to draw: no runs are given"):
        usage_curves({})
    other = netsim.simulate("parrot-fig2", "parrot-fig2", allocator="fifo")
    for draw in (usage_areas, lambda run: usage_curves({"a": run})):
        with pytest.raises(NotRecordedError, match=r"only runs on a netsim.Cluster"):
            draw(other)
        with pytest.raises(InputError, match="nothing to draw: no job has arrived"):
            draw(result.replace(jobs=result.jobs[:0], gpus=result.gpus[:0]))
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"matplotlib is not installed.*\[plot\]"):
        usage_areas(result)
