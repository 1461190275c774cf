"""The Gantt chart of GPUs: what is drawn, not how it looks."""

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import Cluster, JobSpec
from netsim.errors import InputError, MissingExtraError
from netsim.plots import gpu_gantt as module
from netsim.plots import style
from netsim.plots.gpu_gantt import gpu_gantt
from netsim.plots.spans import time_within
from netsim.results.result import Result

pytestmark = pytest.mark.usefixtures("matplotlib")

COLUMNS = ["job", "server", "gpu", "start_s", "run_s", "stop_s", "end_s", "reason"]

#: Job 0 has GPU 0 of both servers, is preempted at 4 and saves until 5, restores in [8, 10] and
#: runs to its end. Job 1 has both GPUs of server 0 in [5, 8], and server 1 fails at 6 under job 2.
HELD = [(0, 0, 0, 0.0, 0.0, 4.0, 5.0, "preempt"), (0, 1, 0, 0.0, 0.0, 4.0, 5.0, "preempt"),
        (0, 0, 0, 8.0, 10.0, 13.0, 13.0, "finish"), (0, 1, 0, 8.0, 10.0, 13.0, 13.0, "finish"),
        (1, 0, 0, 5.0, 5.0, 8.0, 8.0, "finish"), (1, 0, 1, 5.0, 5.0, 8.0, 8.0, "finish"),
        (2, 1, 1, 1.0, 1.0, 6.0, 6.0, "fault")]


def made(held: Sequence[tuple[object, ...]], gpus: Sequence[int] = (2, 2)) -> Result:
    """Return a result whose jobs hold GPUs like this, from their arrival to their end."""
    base = netsim.simulate(Cluster(gpus=gpus), [JobSpec(0, ranks=1, compute_s=1,
                                                        pattern="ring-all-reduce")])
    rows = pd.DataFrame(held, columns=COLUMNS)
    jobs = rows.groupby("job").agg(arrival_s=("start_s", "min"), finish_s=("end_s", "max"))
    return base.replace(gpus=rows, jobs=jobs.reset_index())


def one_each(jobs: int, gpus: Sequence[int], size: int = 1) -> Result:
    """Return a result in which jobs have GPUs for a second each, in turn, from the first GPU on."""
    server_of = np.repeat(np.arange(len(gpus)), gpus)
    first = np.concatenate(([0], np.cumsum(gpus)))
    return made([(job, server_of[gpu], gpu - first[server_of[gpu]], float(job), float(job),
                  job + 1.0, job + 1.0, "finish") for job in range(jobs) for gpu in range(size)],
                gpus)


def bars(chart):
    """Return (colour, first row, last row, from, to) of blocks, by hatch."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_hex

    found: dict[str, list[tuple[object, ...]]] = {}
    for collection in chart.collections:
        if not isinstance(collection, PolyCollection):
            continue
        colour = to_hex(collection.get_edgecolor()[0] if collection.get_hatch()
                        else collection.get_facecolor()[0]).upper()
        for path in collection.get_paths():
            (begin, top), (end, bottom) = path.vertices.min(axis=0), path.vertices.max(axis=0)
            found.setdefault(collection.get_hatch() or "", []).append(
                (style.COLOURS.index(colour), round(top + 0.5), round(bottom - 0.5), begin, end))
    return {hatch: sorted(blocks) for hatch, blocks in found.items()}


def legend(strip):
    box = strip.get_legend()
    return [] if box is None else [text.get_text() for text in box.get_texts()]


def test_states_marks_and_numbers_of_jobs(matplotlib):
    """Colours are in order of the first start: jobs 0, 2, 1."""
    chart, strip = gpu_gantt(made(HELD))
    assert bars(chart) == {
        "": [(0, 0, 0, 0, 4), (0, 0, 0, 10, 13), (0, 2, 2, 0, 4), (0, 2, 2, 10, 13),
             (1, 3, 3, 1, 6), (2, 0, 1, 5, 8)],
        "/////": [(0, 0, 0, 8, 10), (0, 2, 2, 8, 10)],
        "\\\\\\\\\\": [(0, 0, 0, 4, 5), (0, 2, 2, 4, 5)]}
    marks = [each for each in chart.collections
             if isinstance(each, matplotlib.collections.LineCollection)]
    assert [segment.tolist() for segment in marks[0].get_segments()] == [
        [[5, -0.5], [5, 0.5]], [[5, 1.5], [5, 2.5]]]
    lost = [line for line in chart.lines if line.get_marker() == "x"]
    assert [line.get_xydata().tolist() for line in lost] == [[[6, 3]]]
    assert sorted((text.get_text(), *text.get_position()) for text in chart.texts) == [
        ("0", 2, 0), ("0", 2, 2), ("0", 11.5, 0), ("0", 11.5, 2), ("1", 6.5, 0.5), ("2", 3.5, 3)]
    assert legend(strip) == ["running", "restoring", "saving", "preempted", "lost GPUs"]
    assert chart.get_xlabel() == "time (s); numbers are jobs"
    assert [text.get_text() for text in chart.get_yticklabels()] == ["0", "1"]
    low, high = chart.get_ylim()
    assert low > high  # server 0 is on top


def test_the_strip_counts_jobs_that_wait():
    """Job 0 waits in [5, 8]; job 2, which was lost for good at 6, has ended there."""
    strip = gpu_gantt(made(HELD))[1]
    outline = strip.collections[0].get_paths()[0].vertices
    inside = outline[outline[:, 1] > 0]
    assert inside[:, 0].min() == 5
    assert inside[:, 0].max() == 8
    assert [label.get_text() for label in strip.get_yticklabels()] == ["0", "1"]


def test_without_pauses_and_preemptions_there_is_nothing_to_explain():
    """The columns are optional, too."""
    result = made(HELD)
    chart, strip = gpu_gantt(result.replace(gpus=result.gpus[[*COLUMNS[:4], "end_s"]]))
    assert legend(strip) == []
    assert set(bars(chart)) == {""}
    assert (0, 0, 0, 8, 13) in bars(chart)[""]


def test_gpus_that_nobody_has_are_rows_too():
    chart, *_ = gpu_gantt(one_each(1, [2, 3]))
    assert chart.get_ylim() == (4.5, -0.5)
    assert chart.get_yticks().tolist() == [0.5, 3]


def test_neighbours_have_different_colours():
    """One after the other on one GPU; and side by side on six, where each meets two others."""
    after, beside = one_each(60, [1]), made([
        (gpu, 0, gpu, float(gpu), float(gpu), 9.0, 9.0, "finish") for gpu in (0, 2, 4, 1, 3, 5)],
        [6])
    for result, place in ((after, 3), (beside, 1)):
        chart, *_ = gpu_gantt(result)
        colours = [bar[0] for bar in sorted(bars(chart)[""], key=itemgetter(place))]
        assert all(one != other for one, other in pairwise(colours))
        assert set(colours) == set(range(6))


def test_many_jobs_have_the_colours_of_their_sizes():
    """61 jobs: 30 of one GPU, 31 of two."""
    held = [(job, 0, gpu, float(job), float(job), job + 1.0, job + 1.0, "finish")
            for job in range(61) for gpu in range(1 + (job >= 30))]
    [chart] = gpu_gantt(made(held, [2]))
    assert legend(chart) == ["1 GPU", "2"]
    assert chart.get_xlabel() == "time (s); 61 jobs, coloured by size"
    assert not chart.texts
    assert {(colour, bottom) for colour, _, bottom, *_ in bars(chart)[""]} == {(0, 0), (1, 1)}


def test_sizes_are_merged_where_they_take_least_time():
    """Up to six sizes are classes; more are powers of two, merged with a neighbour if need be."""
    gpus = pd.Series([1, 2, 4, 8, 16, 32, 64, 128])
    assert module._classes(gpus, gpus * 1.0).tolist() == [4, 8, 16, 32, 64, 128]
    assert module._classes(gpus, 128.0 / gpus).tolist() == [1, 2, 4, 8, 16, 128]
    assert module._classes(gpus[:6], gpus[:6] * 1.0).tolist() == [1, 2, 4, 8, 16, 32]
    odd = pd.Series([1, 2, 3, 4, 5, 6, 7, 9])
    assert module._classes(odd, odd * 1.0).tolist() == [1, 2, 4, 8, 16]


def test_many_gpus_are_an_image_of_means(matplotlib):
    """257 GPUs on 129 servers, a row each: one with half of its GPUs, one that restores until 5."""
    held = [(0, 0, 0, 0.0, 0.0, 10.0, 10.0, "finish"), (1, 1, 0, 0.0, 5.0, 10.0, 10.0, "preempt"),
            (1, 1, 1, 0.0, 5.0, 10.0, 10.0, "preempt")]
    [chart] = gpu_gantt(made(held, [2] * 128 + [1]))
    picture = chart.images[0].get_array()
    assert picture.shape == (129, 600, 3)
    white, colours = np.ones(3), [matplotlib.colors.to_rgb(each) for each in style.COLOURS]
    assert np.allclose(picture[0], (colours[0] + white) / 2)
    assert np.allclose(picture[1, :300], matplotlib.colors.to_rgb(module._PAUSED))
    assert np.allclose(picture[1, 300:], colours[1])
    assert (picture[2:] == 1).all()
    assert legend(chart) == ["restoring or saving"]
    assert chart.get_xlabel() == "time (s)\n1 times preempted"
    assert chart.get_ylabel() == "server (a row each)"


def test_servers_share_rows_where_they_are_too_many():
    chart, *_ = gpu_gantt(one_each(1, [1] * 700, 300))
    picture = chart.images[0].get_array()
    assert picture.shape[0] == 234  # three servers each
    assert (picture[:100] != 1).any(axis=-1).all()
    assert (picture[100:] == 1).all()
    assert chart.get_ylabel() == "server (3 per row)"


def test_an_image_holds_all_gpu_seconds():
    """Of random intervals: in each row and bin, the sum of what each interval has in the bin."""
    rng = np.random.default_rng(4)
    ends = np.sort(rng.uniform(2, 9, (200, 2)), axis=1)
    held = pd.DataFrame({"row": rng.integers(0, 5, 200), "run_s": ends[:, 0],
                         "stop_s": ends[:, 1]})
    edges = np.linspace(2, 9, 38)
    covered = time_within(held["run_s"], held["stop_s"], edges, held["row"], 5)
    each = np.diff(np.clip(edges[:, None], *ends.T), axis=0)
    for row in range(5):
        own = (held["row"] == row).to_numpy()
        assert covered[row] == pytest.approx(each[:, own].sum(axis=1))


def test_many_preemptions_are_counted():
    held = [(job, 0, 0, float(k), float(k), k + 1.0, k + 1.0, "preempt")
            for k, job in enumerate([0, 1] * 126)]
    chart, strip = gpu_gantt(made(held, [1]))
    assert legend(strip) == []
    assert chart.get_xlabel() == "time (s)\n252 times preempted"


def test_a_stopped_run():
    base = made(HELD)
    gpus = base.gpus.query("start_s <= 9").copy()
    for name in ("run_s", "stop_s", "end_s"):
        gpus[name] = gpus[name].where(gpus[name] <= 9)
    chart, *_ = gpu_gantt(base.replace(gpus=gpus, run=dict(base.run) | {"stopped_at_s": 9.0}))
    assert bars(chart)["/////"] == [(0, 0, 0, 8, 9), (0, 2, 2, 8, 9)]


def test_what_cannot_be_drawn(monkeypatch):
    with pytest.raises(InputError, match="nothing to draw: no job has got GPUs"):
        gpu_gantt(made(HELD[:0]))
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"matplotlib is not installed.*\[plot\]"):
        gpu_gantt(made(HELD))


@pytest.mark.parametrize(("begins_s", "lasts_s"), [
    (0, 9e3), (0, 24e3), (0, 99e3), (98_000, 900), (123_456, 1), (7e6, 1e6), (1e9, 5)])
def test_labels_of_the_axis_of_time_have_room(begins_s, lasts_s):
    """However many digits they have, they do not touch, and there are some."""
    jobs = [JobSpec(k, arrival_s=begins_s + k * lasts_s / 6, pattern="ring-all-reduce", ranks=2,
                    nbytes=0, compute_s=lasts_s / 6) for k in range(6)]
    chart, *_ = gpu_gantt(netsim.simulate(Cluster(4, 2), jobs, scheduler="fifo", execution="asrpt"))
    chart.figure.canvas.draw()
    low, high = chart.get_xlim()
    shown = [label.get_window_extent() for tick, label in zip(
        chart.get_xticks(), chart.get_xticklabels(), strict=True) if low <= tick <= high]
    assert len(shown) >= 2
    letter = shown[0].height / 2
    assert all(left.x1 + letter / 2 < right.x0 for left, right in pairwise(shown))
