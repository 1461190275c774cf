"""Pictures of edge-clouds: what is drawn, not how it looks."""

from __future__ import annotations

import numpy as np
import pytest

import netsim
from netsim import EdgeCloud, EdgeJob
from netsim.errors import InputError, NotRecordedError
from netsim.plots.curves import active_curves, timeline
from netsim.plots.edge_gantt import edge_gantt
from netsim.plots.edge_usage import worker_curves
from netsim.plots.spans import ROW

pytestmark = pytest.mark.usefixtures("matplotlib")

ONE = EdgeCloud([["a"]])


def job(number: int, **options: object) -> EdgeJob:
    return EdgeJob(**{"id": number, "worker_type": "a", "upload_s": 1.0, "cloud_upload_s": 50.0}
                   | options)


#: The second job, of 2 s, preempts the first, of 10 s: training in [1, 4], [4, 6] and [6, 13].
PREEMPTED = [job(0, compute_s=10), job(1, arrival_s=3, compute_s=2)]


def kinds(ax) -> dict[str, tuple[float, ...]]:
    legend = ax.get_legend()
    return {text.get_text(): patch.get_facecolor()
            for patch, text in zip(legend.get_patches(), legend.get_texts(), strict=True)}


def coloured(ax, kind: str) -> dict[int, tuple[float, float, float]]:
    """Return the first and last instant and the area of a colour in each row.

    Areas are divided by the height of a row: 1 is a row that is coloured for a second.
    """
    paths: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    for collection in ax.collections:
        if tuple(collection.get_facecolor()[0]) == kinds(ax)[kind]:
            for path in collection.get_paths():
                x, y = path.vertices.T
                paths.setdefault(round((y.min() + y.max()) / 2), []).append((x, y))
    return {row: tuple(np.round([
        min(x.min() for x, _ in own), max(x.max() for x, _ in own),
        sum(abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) for x, y in own) / 2 / ROW],
        9).tolist()) for row, own in paths.items()}


def test_a_preempted_job_has_a_gap() -> None:
    """Trained are 3 + 7 s of the first job and 2 s of the second; data takes 1 s each."""
    ax = edge_gantt(netsim.simulate(ONE, PREEMPTED))
    assert list(kinds(ax)) == ["at the edge", "no data yet", "no training"]
    assert coloured(ax, "at the edge") == {0: (1, 13, 10), 1: (4, 6, 2)}
    assert coloured(ax, "no data yet") == {0: (0, 1, 1), 1: (3, 4, 1)}
    assert coloured(ax, "no training") == {0: (0, 13, 13), 1: (3, 6, 3)}
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0", "1"]


def test_heights_are_numbers_of_chunks() -> None:
    """Of three chunks of 8 s two train at the edge, in [1, 9], and one in the cloud, in [5, 13].

    At most three at once: areas are 2/3 of 8 s and 1/3 of 8 s.
    """
    two = EdgeCloud([["a", "a"]])
    ax = edge_gantt(netsim.simulate(two, [job(0, compute_s=8, chunks=3, cloud_upload_s=5)]))
    assert coloured(ax, "at the edge") == {0: (1, 13, pytest.approx(16 / 3))}
    assert coloured(ax, "in the cloud") == {0: (1, 13, pytest.approx(8 / 3))}


def test_whole_jobs_and_stopped_runs() -> None:
    """Two workers of a job train at once, as it has them: full height. It goes on until 5 s."""
    result = netsim.simulate(EdgeCloud([["a", "a"]]), [job(0, compute_s=4, chunks=4, gang=2)],
                             scheduler="srtf", until=5)
    ax = edge_gantt(result)
    assert list(kinds(ax)) == ["at the edge", "no data yet", "no training"]
    assert coloured(ax, "at the edge") == {0: (1, 5, 4)}
    with pytest.raises(InputError, match="jobs must be a whole number of at least 1, not 0"):
        edge_gantt(result, jobs=0)
    with pytest.raises(NotRecordedError, match="training was not recorded"):
        edge_gantt(result.replace(training=None))
    with pytest.raises(NotRecordedError, match=r"only runs on a netsim\.EdgeCloud have them"):
        edge_gantt(netsim.simulate("parrot-fig2", "parrot-fig2"))


def test_a_job_that_never_trained_has_a_row() -> None:
    ax = edge_gantt(netsim.simulate(ONE, PREEMPTED, until=3.5))
    assert coloured(ax, "at the edge") == {0: (1, 3.5, 2.5)}
    assert coloured(ax, "no data yet") == {0: (0, 1, 1), 1: (3, 3.5, 0.5)}


def test_workers_in_training_over_time() -> None:
    """One worker until 13 s; a chunk in the cloud is not counted."""
    result = netsim.simulate(ONE, [*PREEMPTED, job(2, compute_s=1, worker_type="b",
                                                   cloud_upload_s=2)])
    (line,) = active_curves({"x": result}, "training").get_lines()
    assert line.get_xdata().tolist() == [1, 4, 6, 13]
    assert line.get_ydata().tolist() == [1, 1, 1, 0]
    panels = timeline({"x": result})
    assert [panel.get_ylabel() for panel in panels] == ["active jobs", "workers in training"]
    cloud = netsim.simulate(ONE, PREEMPTED, scheduler="cloud-only")
    assert len(timeline({"x": cloud})) == 1
    with pytest.raises(InputError, match="nothing to draw: nothing has trained at the edge"):
        active_curves({"x": cloud}, "training")


def test_utilisation_of_workers() -> None:
    """The share of the area below the curve is the utilisation of the run."""
    result = netsim.simulate(EdgeCloud([["a", "a"]]), PREEMPTED)
    (line,) = worker_curves({"x": result}).get_lines()
    times, shares = line.get_xdata(), line.get_ydata()
    assert times[-1] == pytest.approx(result.jobs["finish_s"].max())
    assert np.dot(shares[:-1], np.diff(times)) / times[-1] == pytest.approx(
        result.summary()["utilisation"])
    with pytest.raises(InputError, match=r"needs a run on a netsim\.EdgeCloud with workers"):
        worker_curves({"x": netsim.simulate(EdgeCloud([[]]), PREEMPTED, scheduler="cloud-only")})


@pytest.mark.parametrize(("factor", "unit", "last"), [(1, "s", 13), (5e4, "h", 150),
                                                      (1e7, "d", 1500)])
def test_long_times_are_in_hours_or_days(factor, unit, last) -> None:
    """13 s, 181 h and 1,505 d."""
    jobs = [job(0, compute_s=10 * factor, upload_s=3 * factor, cloud_upload_s=1e12)]
    result = netsim.simulate(ONE, jobs)
    for ax in (edge_gantt(result), timeline({"x": result})[-1], worker_curves({"x": result})):
        assert ax.get_xlabel() == f"time ({unit})"
        if unit != "s":
            labels = [text.get_text() for text in ax.get_xticklabels()]
            assert float(labels[-1].replace(",", "")) >= last
