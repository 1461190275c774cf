"""Pictures and timelines of what ranks compute."""

from __future__ import annotations

import pytest

import netsim
from netsim import JobSpec, Stage
from netsim.errors import InputError, NotRecordedError

SWITCH = netsim.big_switch(4, 1.0)


def job(number=0):
    """Rank 0 computes 0-2 and 5-6, rank 1 2-4: a bubble of 3 s on rank 0."""
    return JobSpec(number, hosts=[2 * number, 2 * number + 1], stages=[
        Stage("F0/a", compute_s=2, ranks=[0]),
        Stage("F1/b", compute_s=2, ranks=[1], after=["F0/a"]),
        Stage("back", [(1, 0, 1.0)], after=["F1/b"]),
        Stage("B0/a", compute_s=1, ranks=[0], after=["back"])])


@pytest.fixture(scope="module")
def result():
    return netsim.simulate(SWITCH, [job(), job(1)], timeline=True)


def test_a_row_per_rank_shows_computation_and_bubbles(result):
    ax = result.plot("gantt", of="ranks")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0: 0", "0: 1", "1: 0", "1: 1"]
    spans = sorted({tuple(path.get_extents().intervalx) for bars in ax.collections
                    for path in bars.get_paths()})
    assert spans == [(0, 2), (0, 6), (2, 4), (5, 6)]  # the background, too


@pytest.mark.parametrize(("names", "shown"), [
    (("A", "B"), ["A: 0", "B: 0"]), (("A", "A"), ["0 A: 0", "1 A: 0"]),
    (("", "B"), ["0: 0", "B: 0"])])
def test_jobs_on_a_cluster_and_their_names(names, shown):
    """The fabric records what ranks compute there, too."""
    jobs = [JobSpec(number, ranks=1, name=name, stages=[Stage("s", compute_s=1, ranks=[0])])
            for number, name in enumerate(names)]
    made = netsim.simulate(netsim.gpu_cluster(1, gpus=2), jobs, scheduler="fifo",
                           execution="fabric", record=["jobs", "computations"])
    ax = made.plot("gantt", of="ranks")
    assert [label.get_text() for label in ax.get_yticklabels()] == shown


def test_passes_keep_their_colours_in_a_part_of_the_time(result):
    colours = [{text.get_text(): patch.get_facecolor() for text, patch in zip(
        ax.get_legend().get_texts(), ax.get_legend().get_patches(), strict=True)}
        for ax in (result.plot("gantt", of="ranks"),
                   result.plot("gantt", of="ranks", between=(5, 6)))]
    assert colours[0].items() >= colours[1].items()


def test_ranks_can_be_chosen(result):
    from netsim.plots.rank_gantt import rank_gantt

    ax = rank_gantt(result, ranks=[1])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0: 1", "1: 1"]
    with pytest.raises(InputError, match="nothing to draw"):
        rank_gantt(result, ranks=[7])


def test_many_ranks_are_shown_at_equal_distances():
    many = JobSpec(0, hosts=range(64), stages=[
        Stage("s", compute_s=1, ranks=range(64))])
    made = netsim.simulate(netsim.big_switch(64, 1.0), [many], record=["jobs", "computations"])
    ax = made.plot("gantt", of="ranks")
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        str(rank) for rank in range(0, 64, 4)]
    assert "16 of 64 ranks" in ax.get_xlabel()


def test_the_timeline_has_a_track_per_rank(result):
    events = netsim.timeline(result)["traceEvents"]
    group, = {each["pid"] for each in events
              if each["name"] == "process_name" and each["args"]["name"] == "ranks"}
    names = {each["tid"]: each["args"]["name"] for each in events
             if each["pid"] == group and each["name"] == "thread_name"}
    assert sorted(names.values()) == [f"job {k}, rank {rank}" for k in (0, 1) for rank in (0, 1)]
    assert sorted((names[each["tid"]], each["name"], each["ts"] / 1e6, each["dur"] / 1e6)
                  for each in events if each["pid"] == group and each["ph"] == "X")[:3] == [
        ("job 0, rank 0", "B0/a", 5, 1), ("job 0, rank 0", "F0/a", 0, 2),
        ("job 0, rank 1", "F1/b", 2, 2)]


def test_computations_must_be_recorded(tmp_path):
    plain = netsim.simulate(SWITCH, [job()])
    with pytest.raises(NotRecordedError, match="computations"):
        plain.plot("gantt", of="ranks")


def test_they_are_stored(result, tmp_path):
    result.save(tmp_path / "run")
    again = netsim.load_result(tmp_path / "run")
    assert again.computations.astype({"stage": str, "stream": str}).equals(
        result.computations.astype({"stage": str, "stream": str}))


def test_the_axis_ends_when_the_job_does():
    """Ranks compute for 1 s; then 3 bytes take 3 s."""
    stage = Stage("F", [(0, 1, 3.0)], compute_s=1, ranks=[0, 1])
    result = netsim.simulate(SWITCH, [JobSpec(0, 2, stages=[stage])],
                             record=["computations"])
    low, high = result.plot("gantt", of="ranks").get_xlim()
    assert low == pytest.approx(2 - 0.01 * 4)
    assert high == pytest.approx(6 + 0.01 * 4)
