"""Damaged folders of results: they are read or drawn, or it is said what is wrong with them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim.plots.pictures import PICTURES, draw_picture
from netsim.plots.report import save_report
from netsim.studies.compare import compare_experiment
from netsim.studies.comparison import kind_of_folder, load_folder
from netsim.studies.sweep import sweep_experiment

from .harness import Guard, fuzzed
from .mutations import damaged


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return folders of results, of each kind."""
    made = tmp_path_factory.mktemp("results")
    fig2 = {"network": {"name": "parrot-fig2"}, "workload": {"name": "parrot-fig2"}}
    everything = netsim.Experiment(**fig2, allocator="parrot", compare={
        "allocators": ["parrot", "maxmin"]}, record=["jobs", "coflows", "links", "decisions"])
    netsim.run(everything).save(made / "run")
    compare_experiment(everything).save(made / "comparison")
    on_cluster = netsim.Experiment(
        cluster={"servers": 2, "gpus": 4}, workload={
            "format": "ring-jobs", "mix": {"2": 2, "4": 1}, "iterations": [2, 3]})
    netsim.run(on_cluster).save(made / "cluster")
    on_edge = netsim.Experiment(
        edge_cloud={"kind": "edge-listed", "workers": [["g", "g"]]}, workload={
            "format": "edge-listed", "jobs": [{"compute_s": 3, "worker_type": "g", "chunks": 2}]},
        record=["jobs", "chunks", "training", "workers", "servers", "ps"])
    netsim.run(on_edge).save(made / "edge")
    sweep_experiment(everything, {"allocator": ["parrot", "lccf"], "until": [100.0, 14.0]}, seeds=2,
                     folder=made / "sweep")
    return {path.name: path for path in made.iterdir()}


def damage(folder: Path, data: st.DataObject) -> None:
    """Damage a file in a folder: its contents, or that it is there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(files), label="file")
    match data.draw(st.sampled_from(["contents"] * 8 + ["gone", "folder", "empty"])):
        case "contents":
            path.write_bytes(data.draw(damaged(path.read_bytes())))
        case "empty":
            path.write_bytes(b"")
        case "gone":
            path.unlink()
        case "folder":
            path.unlink()
            path.mkdir()


@contextmanager
def damaged_copy(guard: Guard, folders: dict[str, Path], data: st.DataObject) -> Iterator[Path]:
    """Give a damaged copy of one of the folders, in a folder of its own."""
    name = data.draw(st.sampled_from(sorted(folders)))
    with guard.folder() as folder:
        results = folder / "r"
        shutil.copytree(folders[name], results)
        damage(results, data)
        yield results


@fuzzed(5)
@given(data=st.data())
def test_folders(guard: Guard, part: int, folders: dict[str, Path], data: st.DataObject) -> None:
    with damaged_copy(guard, folders, data) as results:
        kind = guard(lambda: kind_of_folder(results), named=results)
        found = guard(lambda: load_folder(results), named=results)
        assert kind or not found
        if kind == "run" and found:
            found.summary()
        if kind == "sweep" and found:
            assert len(found.table) + found.missing + len(found.failures) == 8


@fuzzed(0.6)
@given(data=st.data())
def test_pictures(guard: Guard, part: int, folders: dict[str, Path], data: st.DataObject) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    with damaged_copy(guard, folders, data) as results:
        kind = guard(lambda: kind_of_folder(results), named=results)
        if kind is None:
            return
        picture = data.draw(st.sampled_from(sorted(PICTURES[kind])))
        try:
            ax = guard(lambda: draw_picture(load_folder(results), picture, kind))
            if ax is not None:
                guard(ax.figure.canvas.draw)
            if kind == "sweep":
                guard(lambda: save_report(load_folder(results), results.parent / "report.html"),
                      whole=results.parent)
        finally:
            pyplot.close("all")
