"""Pictures: what is drawn, not how it looks."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

import netsim
from netsim.errors import InputError, MissingExtraError, OutputError
from netsim.plots.bars import check_plottable, save_plot, total_jct_bars
from netsim.plots.style import COLOURS

pytestmark = pytest.mark.usefixtures("matplotlib")


def row(label: str, ratio: float, scheme: str = "", work_conservation: str = "greedy"
        ) -> dict[str, object]:
    return {"label": label, "scheme": scheme or label, "over_lower_bound": ratio,
            "work_conservation": work_conservation}


@pytest.fixture
def table() -> pd.DataFrame:
    return pd.DataFrame([
        row("parrot", 2.5), row("lccf", 4.0), row("maxmin", 3.0, work_conservation=""),
        row("lccf (work_conservation=none)", 50.0, "lccf", "none"),
        row("lower bound", 1.0, work_conservation="")])


def bars(ax) -> list[tuple[float, float]]:
    """Return (y, ratio) of each bar from the top."""
    return sorted((patch.get_y() + patch.get_height() / 2, patch.get_x() + patch.get_width())
                  for patch in ax.patches)


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_bars_stand_from_the_bound_and_pairs_side_by_side(table) -> None:
    ax = total_jct_bars(table)
    assert [ratio for _, ratio in bars(ax)] == pytest.approx([2.5, 4.0, 50.0, 3.0])
    assert {patch.get_x() for patch in ax.patches} == {1}
    heights = [y for y, _ in bars(ax)]
    assert heights[2] - heights[1] == pytest.approx(1)
    assert min(heights[1] - heights[0], heights[3] - heights[2]) > 1.5
    assert [label.get_text() for label in ax.get_yticklabels()] == ["parrot", "lccf", "maxmin"]
    assert texts(ax) == ["2.50", "4.00", "50.0", "3.00"]
    assert ax.get_xscale() == "log"
    assert ax.get_xlim()[1] > 50
    low, high = ax.get_ylim()
    assert low > heights[-1] > heights[0] > high


def test_without_work_conservation_is_lighter(table) -> None:
    ax = total_jct_bars(table)
    fill = {round(patch.get_width() + 1, 6): patch.get_facecolor() for patch in ax.patches}
    assert len({fill[2.5], fill[4.0], fill[3.0]}) == 3  # a colour per policy
    edge = {round(patch.get_width() + 1, 6): patch.get_edgecolor() for patch in ax.patches}
    assert edge[50.0] == edge[4.0]
    assert all(light >= dark for light, dark in zip(fill[50.0][:3], fill[4.0][:3], strict=True))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "with work conservation", "without"]


def test_several_tables_have_a_colour_each(table) -> None:
    faster = table.assign(over_lower_bound=table["over_lower_bound"] / 2)
    ax = total_jct_bars({"10 Gbps": table, "40 Gbps": faster})
    assert [ratio for _, ratio in bars(ax)] == pytest.approx([2.5, 1.25, 4, 50, 2, 25, 3, 1.5])
    assert len({patch.get_edgecolor() for patch in ax.patches}) == 2
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == ["10 Gbps", "40 Gbps"]
    assert len(set(COLOURS)) == len(COLOURS)


def test_intervals_are_drawn_where_a_table_has_them(table) -> None:
    table["over_lower_bound_low"] = [2.0, None, 45.0, 48.0, 1.0]
    table["over_lower_bound_high"] = [3.5, None, 55.0, 60.0, 1.0]
    ax = total_jct_bars(table.drop(index=2))
    segments = [segment for container in ax.containers if hasattr(container, "has_xerr")
                for each in container.lines[2] for segment in each.get_segments()]
    assert [(low[0], high[0]) for low, high in segments] == [(2, 3.5), (48, 60)]
    assert {text.get_text(): text.xy[0] for text in ax.texts} == {
        "2.50": 3.5, "4.00": 4, "50.0": 60}
    assert ax.get_xlim()[1] > 60


def test_labels_are_short(table) -> None:
    table["scheme"] = ["parrot (theta_max=0.6)", "aalo-lbsf (work_conservation=shared_uniform)",
                       "lccf (work_conservation=capped)", "maxmin", "lower bound"]
    assert [label.get_text() for label in total_jct_bars(table).get_yticklabels()] == [
        "parrot\n(theta_max=0.6)", "aalo-lbsf\n(shared_uniform)", "lccf (capped)", "maxmin"]


def test_no_legend_where_there_is_nothing_to_tell_apart(table) -> None:
    assert total_jct_bars(table.iloc[:1]).get_legend() is None


def test_an_axes_may_be_given(table) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    ax = figure.subplots()
    assert total_jct_bars(table, ax) is ax


def test_real_results_and_those_without_any_can_be_drawn(tmp_path) -> None:
    stopped = netsim.compare("parrot-fig2", "parrot-fig2", ["parrot", "lccf"], until=14).table
    ax = total_jct_bars(stopped)
    assert texts(ax) == ["1.29", "no job finished"]
    save_plot(ax, tmp_path / "a.png")


def test_an_empty_table_cannot_be_drawn(table) -> None:
    for empty in (table.iloc[-1:], {}):
        with pytest.raises(InputError, match="nothing to draw"):
            total_jct_bars(empty)


@pytest.mark.parametrize(("suffix", "start"), [
    (".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml"), (".PNG", b"\x89PNG")])
def test_pictures_are_written_whole(table, tmp_path, suffix, start) -> None:
    path = tmp_path / "new" / f"a{suffix}"
    assert save_plot(total_jct_bars(table), path) == path
    assert path.read_bytes().startswith(start)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("name", "message"), [
    ("a.xyz", r"a\.xyz: the suffix of a plot must be one of \.pdf, \.png, \.svg"),
    ("a", "the suffix of a plot must be"),
    ("folder.png", "is a folder, not a file"),
    ("file/a.png", "cannot be written: .*file is not a writable folder"),
])
def test_pictures_that_cannot_be_written(table, tmp_path, name, message) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").write_text("x")
    for attempt in (check_plottable, lambda path: save_plot(total_jct_bars(table), path)):
        with pytest.raises(OutputError, match=message):
            attempt(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.png"]


def test_a_picture_that_fails_leaves_nothing(table, tmp_path, monkeypatch) -> None:
    def full(self: Path, data: bytes) -> None:
        with self.open("wb") as file:
            file.write(data[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match=r"a\.png: cannot be written: No space left on device"):
        save_plot(total_jct_bars(table), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(table, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for attempt in (lambda: check_plottable("a.png"), lambda: total_jct_bars(table)):
        with pytest.raises(MissingExtraError, match=r"pip install 'coflow-netsim\[plot\]'"):
            attempt()
