"""``netsim predict``: a table of errors, and a picture of them."""

from __future__ import annotations

import json

import pytest

from netsim import JobSpec, Workload


@pytest.fixture
def workload(monkeypatch):
    """A workload ``mine``: ten jobs of one group, of 10 to 19 iterations, in place of a file."""
    jobs = Workload([JobSpec(id, id, 10 + id, pattern="ring-all-reduce", ranks=1, group=0, user=id)
                     for id in range(10)])
    asked = {}

    def read(source, **options):
        asked.update(options, source=source)
        return jobs

    monkeypatch.setattr("netsim.traces.read_workload", read)
    return asked


def test_a_table(netsim, workload) -> None:
    done = netsim("predict", "mine", "--predictor", "mean, mean:scope=user",
                  "--predictor", "perfect", "--seed", "3", "--set", "megabyte=1MiB")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = [line.split("  ") for line in done.stdout.splitlines()]
    assert lines[0] == ["2 jobs after 8 to learn from; 0.0% of groups never seen"]
    rows = {row[0]: [cell.strip() for cell in row[1:] if cell] for row in lines[4:]}
    assert rows["mean"][:2] == ["5.00", "0.0%"]
    assert rows["mean (scope=user)"][:2] == ["18.5", "0.0%"]
    assert rows["perfect"][:2] == ["0", "100.0%"]
    assert workload == {"source": "mine", "format": None, "seed": 3, "megabyte": "1MiB"}


def test_json(netsim, workload) -> None:
    done = netsim("predict", "mine", "--predictor", "mean,perfect", "--json")
    mean, perfect = json.loads(done.stdout)
    assert (mean["mae"], perfect["mae"], perfect["within_5_percent"], mean["jobs"]) == (5, 0, 1, 2)


def test_a_picture_and_another_share(netsim, workload, here) -> None:
    pytest.importorskip("matplotlib")
    done = netsim("predict", "mine", "--predictor", "mean", "--train", "0.5", "--plot", "e.png")
    assert done.stdout.splitlines()[0].startswith("5 jobs after 5 to learn from")
    assert done.stdout.splitlines()[-1] == "picture: e.png"
    assert (here / "e.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_done_is_said_first(refused, workload) -> None:
    assert "unknown predictor 'meen'" in refused("predict", "mine", "--predictor", "meen")
    assert "between 0 and 1" in refused("predict", "mine", "--predictor", "mean", "--train", "1")
    assert "suffix of a plot must be one of" in refused("predict", "mine", "--plot", "e.gif")


def test_a_workload_without_groups(refused) -> None:
    assert "no job has a group" in refused("predict", "coflow-sample", "--predictor", "mean")
