"""A sweep as one page: whole, true to its tables, and without links to anything else."""

import math
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest

import netsim
from netsim.base.units import format_aligned
from netsim.errors import InputError, OutputError
from netsim.plots import style
from netsim.plots.report import figure_of, report_page, save_report
from netsim.studies.compare import compare_experiment
from tests.examples import ALL
from tests.pairs import exhaustive

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
               None)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return netsim.sweep_experiment("demo", {"network.capacity": ["10Gbps", "40Gbps"],
                                            "allocator": ["parrot", "lccf"]}, seeds=2,
                                   folder=tmp_path_factory.mktemp("sweeps") / "speeds")


@pytest.fixture(scope="module")
def page(found):
    return report_page(found)


@pytest.fixture
def without_figures(monkeypatch):
    """Leave figures empty by default, for to write them is nearly all that a page takes."""
    if not ALL:
        monkeypatch.setattr("netsim.plots.report._drawn", lambda figure: "<svg></svg>")


#: For tests of what stands beside the figures.
undrawn = pytest.mark.usefixtures("without_figures")


class _Cells(HTMLParser):
    """The texts of the cells of all tables, and whatever a page refers to."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.refers, self._in = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        self._in = tag in ("td", "th")
        self.refers += [value for name, value in attributes
                        if name in ("src", "href", "xlink:href") and not value.startswith("#")]

    def handle_endtag(self, tag):
        self._in = False

    def handle_data(self, data):
        if self._in:
            self.rows[-1].append(data)


def test_settings_that_were_varied_together_are_not_printed_as_a_grid(page, tmp_path):
    """Four of the 16 combinations of four values each were run."""
    assert "[sweep.vary]" in page
    drawn = netsim.sweep_experiment(
        "demo", {"network.capacity": netsim.Range("1Gbps", "10Gbps"),
                 "workload.jobs": netsim.Range(5, 50)},
        points=netsim.Points(4, "random"), folder=tmp_path / "drawn")
    assert len(drawn.table) == 4
    text = report_page(drawn)
    assert "[sweep" not in text
    assert "not in all combinations" in text


def test_the_page_has_the_figures_of_the_sweep(found, page):
    cells = _Cells(page)
    row = found.table.iloc[3]
    assert [row["network.capacity"], row["allocator"], str(row["seed"]),
            str(row["jobs_finished"]), f"{row['jct_total_s']:,.0f}",
            f"{row['over_lower_bound']:.3f}", format_aligned(found.table["makespan_s"])[3],
            row["key"]] in cells.rows
    means = found.means().iloc[0]
    cell = (f"{means['over_lower_bound']:.3f} [{means['over_lower_bound_low']:.3f}, "
            f"{means['over_lower_bound_high']:.3f}]")
    assert any(cell in row for row in cells.rows)
    assert page.count("<svg") == 3
    # What whiskers are is said once: by the figure.
    assert page.count("whiskers: 95 % confidence intervals") == 2
    assert not any("interval" in text for text in re.findall("<figcaption>(.*?)</", page))
    assert page.count("<h1>demo</h1>") == 1
    assert "big-switch-128-10g" in page
    assert f"<li>netsim: {netsim.__version__}</li>" in page


def test_the_page_needs_nothing_else(found, page):
    assert _Cells(page).refers == []
    assert not re.search(r"@import|url\((?!#)|<script[^>]*src|fetch\(|XMLHttpRequest", page)
    assert report_page(found) == page


def test_policies_of_a_notebook_have_their_bare_names(found):
    own = found.table.assign(allocator=found.table["allocator"].replace("lccf", "__main__:Mine"))
    grid = {**found.grid, "allocator": ["parrot", "__main__:Mine"]}
    page = report_page(replace(found, table=own, grid=grid))
    assert "__main__" not in page
    assert "Mine" in {cell for row in _Cells(page).rows for cell in row}
    assert page.count('data-series="Mine"') > 0


def test_pages_are_dark_where_the_reader_s_system_is(page):
    """Only colours of the page change: the background of its figures is that of their colours."""
    style = page.partition("<style>")[2].partition("</style>")[0]
    dark = style.partition("@media (prefers-color-scheme: dark) {")[2].partition("}")[0]
    assert {name for name, _ in re.findall(r"(--\w+): (#\w+)", dark)} == set(
        re.findall(r"var\((--\w+)\)", style))
    assert "figure > svg, figure > img, .zoom > div { background: #fff; color: #222; }" in style


@undrawn
def test_claims_and_failures_and_names_are_shown_as_they_are(found):
    claims = pd.DataFrame([{"claim": "a < b", "paper": "1", "measured": "2 [1, 3]",
                            "holds_on": "3 of 4", "verdict": "holds"}])
    failures = pd.DataFrame([{"network.capacity": "1Gbps", "allocator": "<mine>", "seed": 4,
                              "error": "no & never", "key": "k", "details": ""}])
    page = report_page(replace(found, failures=failures), claims)
    assert ["a < b", "1", "2 [1, 3]", "3 of 4", "holds"] in _Cells(page).rows
    before = report_page(found, claims.drop(columns="holds_on"))  # of an earlier version
    assert ["a < b", "1", "2 [1, 3]", "holds"] in _Cells(before).rows
    assert ["1Gbps", "<mine>", "4", "no & never"] in _Cells(page).rows


@undrawn
def test_where_it_cannot_be_written(found, tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        save_report(found, tmp_path / "none" / "r.html")
    with pytest.raises(InputError, match="the sweep has no runs"):
        report_page(replace(found, table=found.table.iloc[:0]))
    assert list(tmp_path.iterdir()) == []


def in_browser(path):
    """The page as it is after its script ran."""
    return subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu",
         f"--user-data-dir={path.with_name('profile')}", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True).stdout


@exhaustive
@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_a_browser_draws_it(found, tmp_path):
    path = save_report(found, tmp_path / "report.html")
    shown = in_browser(path)
    cells = _Cells(shown)
    assert len([row for row in cells.rows if "parrot" in row]) == len(
        [row for row in _Cells(path.read_text()).rows if "parrot" in row])
    assert shown.count("<svg") == 3
    assert "</html>" in shown


# --- runs and comparisons ------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared():
    return netsim.compare(NET, JOBS, ["fifo", "sebf"], record=["coflows", "links"])


@pytest.fixture(scope="module")
def page_compared(compared):
    return report_page(compared)


NET = netsim.big_switch(3, 1e6)
JOBS = [netsim.JobSpec(job, stages=[netsim.Stage("c", [(0, 1, 1e6 * (job + 1))])],
                       hosts=range(3)) for job in range(3)]


def on_edge():
    job = netsim.EdgeJob(id=0, compute_s=1, worker_type="a", upload_s=1)
    return netsim.simulate(netsim.EdgeCloud([["a"]]), netsim.EdgeWorkload([job]),
                           scheduler="a-online")


def on_cluster():
    cluster = netsim.Cluster(gpus=[1, 1], nic=1e6)
    jobs = [netsim.JobSpec(job, pattern="ring-all-reduce", ranks=2, nbytes=1e6)
            for job in range(2)]
    return netsim.simulate(cluster, jobs, scheduler="fifo", execution="fabric")


@pytest.mark.parametrize(("thing", "shown"), [
    (lambda: netsim.simulate(NET, JOBS, record=["coflows"]),
     "Active jobs and active coflows over time; drag"),
    (on_edge, "Where and when each job trained"),
    (on_cluster, "Which job held which GPU")])
def test_a_run_wherever_it_was(thing, shown):
    page = report_page(thing(), title="Mine, <b>& yours")
    assert "<h1>Mine, &lt;b&gt;&amp; yours</h1>" in page
    assert shown in page
    cells = _Cells(page)
    assert ["total JCT (s)"] in [row[:1] for row in cells.rows]
    assert all(link.startswith("data:") for link in cells.refers)


def test_small_figures_stand_beside_each_other(page):
    """Those of several columns of a paper, and timelines, have the whole width."""
    assert page.count('<div class="figures">') == 1
    figures, _, after = page.partition('<div class="figures">')[2].partition("</figure>\n</div>")
    assert f"{figures}{after}".count("<figure") == page.count("<figure")
    assert "<figure" not in after
    wide = figure_of(style.new_axes(2.0, 7.0), "")
    assert wide.startswith('<figure class="whole">')
    assert figure_of(style.new_axes(2.0), "").startswith("<figure>")


@undrawn
def test_an_experiment_without_a_name_is_called_by_what_it_is():
    compared = netsim.compare(NET, JOBS, ["maxmin", "sebf"])
    named = replace(compared, spec={"name": "mine"})
    unnamed = replace(compared, spec={"name": "experiment"})
    assert "<h1>mine</h1>" in report_page(named)
    assert "<h1>Comparison on workload, " in report_page(unnamed)


@undrawn
def test_a_run_has_the_names_of_what_was_chosen_for_it():
    """Of an edge-cloud and a cluster the scheduler; the allocator only where links are shared."""
    cluster = netsim.Cluster(gpus=[1, 1], nic=1e6)
    jobs = [netsim.JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes=1e6)]
    rings = netsim.simulate(cluster, jobs, scheduler="sjf-bco", execution="rar-contention")
    network = netsim.simulate(NET, JOBS, allocator="sebf")
    for run, policies, placement in [
            (on_edge(), "a-online", ""), (rings, "sjf-bco", ""), (network, "sebf", ""),
            (on_cluster(), "fifo, maxmin", ", placement first-fit")]:
        assert repr(run).startswith(f"<Result of {policies} on workload: ")
        page = report_page(run)
        assert f"<h1>{policies} on workload, " in page
        assert f"<p>{policies}{placement} on workload, " in page
        assert f'"label":"{policies}"' in page
        assert policies in [text.get_text() for text in run.plot("cdf").get_legend().get_texts()]


@pytest.mark.parametrize(("values", "texts"), [
    ([1.3491, 0.98, 1.0], ["1.349", "0.980", "1.000"]), ([1.46, 1.0], ["1.460", "1.000"]),
    ([44.0, 40.8889, math.nan], ["44.00", "40.89", ""]), ([44.0, 28.0], ["44", "28"]),
    ([23628.94, 1500.5], ["23,629", "1,500"]), ([23628.94, 5.2], ["23,628.94", "5.20"]),
    ([-0.5, 0.25, 0.0], ["-0.5000", "0.2500", "0.0000"]), ([1e-9, 2.5e-7], ["1e-09", "2.5e-07"]),
    ([math.nan], [""]), ([], []), ([math.inf, 0.5], ["inf", "0.5000"])])
def test_numbers_of_a_column_have_the_same_decimals(values, texts):
    assert format_aligned(values) == texts


@undrawn
def test_times_of_jobs_have_one_unit_in_a_summary():
    """Jobs of 60,000 s, one after the other: JCTs of up to 180,000 s, 50 h, and waits of less."""
    jobs = [netsim.EdgeJob(id=k, compute_s=6e4, worker_type="a", upload_s=0) for k in range(3)]
    run = netsim.simulate(netsim.EdgeCloud([["a"]], cloud=False), netsim.EdgeWorkload(jobs),
                          scheduler="srtf")
    rows = {row[0]: row[1] for row in _Cells(report_page(run)).rows if len(row) == 2}
    assert rows["median JCT (h)"] == "33.33"
    assert rows["95th percentile of queueing time (h)"] == "31.67"
    assert not [name for name in rows if "queueing" in name and not name.endswith("(h)")]


@undrawn
def test_a_report_of_one_run_is_of_this_run():
    """It has no boxes to hide policies, and not the description of what its file compares."""
    compared = compare_experiment(netsim.Experiment(
        network={"name": "parrot-fig2"}, workload={"name": "parrot-fig2"}, name="Two",
        description="Parrot and LCCF.", compare={"allocators": ["parrot", "lccf"]}))
    whole, one = report_page(compared), report_page(compared.results["parrot"])
    assert ("<p>Parrot and LCCF.</p>" in whole, "<p>Parrot and LCCF.</p>" in one) == (True, False)
    assert ('class="policies"' in whole, 'class="policies"' in one) == (True, False)
    assert "Without JavaScript, the whole run is shown" in one


@undrawn
def test_edge_clouds_have_no_empty_columns_and_long_times_in_hours():
    """Jobs of 20, 40 and 60 hours, one after the other, in the cloud or at the edge."""
    jobs = [netsim.EdgeJob(id=k, compute_s=7.2e4 * (k + 1), worker_type="a", upload_s=1)
            for k in range(3)]
    compared = netsim.compare(netsim.EdgeCloud([["a"]]), netsim.EdgeWorkload(jobs),
                              schedulers=["srtf", "cloud-only"])
    head, *rows = [row for row in _Cells(report_page(compared)).rows if len(row) > 2]
    assert len(rows[0]) == len(rows[1]) == len(head)  # which have texts only
    assert {"total JCT (h)", "makespan (h)"} <= {*head}
    assert float(rows[1][head.index("total JCT (h)")]) == pytest.approx(
        compared.table["jct_total_s"][1] / 3600, rel=1e-5)
    summary = {row[0]: row[1] for row in _Cells(report_page(compared.results["srtf"])).rows
               if len(row) == 2}
    assert float(summary["makespan (h)"].replace(",", "")) == pytest.approx(
        compared.results["srtf"].summary()["makespan_s"] / 3600, rel=1e-5)


def test_a_comparison_has_its_table_and_its_figures(compared, page_compared):
    page = page_compared
    assert {"fifo", "sebf", "lower bound"} <= {row[0] for row in _Cells(page).rows if row}
    assert page.count("<figure") == 7  # bars, two of cdf, classes, slowdown, utilisation, timeline


@exhaustive
def test_a_comparison_has_the_same_page_each_time(compared, page_compared):
    assert report_page(compared) == page_compared


@undrawn
def test_numbers_are_for_people(compared, found):
    """Four digits, separators, bytes with their unit; of a sweep, no ratio of 1 to itself."""
    rows = _Cells(report_page(compared.results["fifo"])).rows
    assert ["total CCT (s)", "10"] in rows  # 1 + 3 + 6 s: 1, 2 and 3 MB, one after the other
    assert ["bytes", "6 MB"] in rows
    assert [row[-1] for row in rows if row[0] in "012"] == ["3 MB", "2 MB", "1 MB"]
    head = next(row for row in _Cells(report_page(compared)).rows if row[0] == "allocator")
    assert not {"scheme", "work conservation"} & {*head}
    assert "total JCT / fifo" in head
    chosen = report_page(replace(compared, baseline="sebf"))
    assert "total JCT / sebf" in next(row for row in _Cells(chosen).rows if row[0] == "allocator")
    ratios = report_page(found).partition("Ratios, pair by pair")[2].partition("<h2>")[0]
    head, *rows = _Cells(ratios).rows
    assert "total JCT / parrot" in head
    assert [row[1] for row in rows] == ["lccf"] * 2


@undrawn
def test_shares_are_in_per_cent_and_policies_are_called_what_they_are():
    """One GPU, two jobs of 1 s: held all the time, and one job waits."""
    cluster = netsim.Cluster(gpus=[1])
    jobs = [netsim.JobSpec(k, pattern="ring-all-reduce", ranks=1, compute_s="1s", iterations=1)
            for k in range(2)]
    compared = netsim.compare(cluster, jobs, schedulers=["fifo", "srtf"], execution="fabric")
    rows = _Cells(report_page(compared.results["fifo"])).rows
    assert ["GPU utilisation (%)", "100"] in rows
    head, first, *_ = [row for row in _Cells(report_page(compared)).rows if len(row) > 2]
    assert head[0] == "scheduler"
    assert float(first[head.index("utilisation (%)")]) == 100


@undrawn
def test_wide_tables_scroll_and_long_texts_are_broken(found):
    claims = pd.DataFrame([{"claim": "word " * 30, "paper": "1", "measured": "2",
                            "verdict": "holds"}])
    page = report_page(found, claims)
    assert page.count("<table>") == page.count('<div class="wide"><table>')
    assert '<td class="text long">word word' in page


#: What a person does: unticks the second policy, drags over the middle half of the timeline, and
#: goes back to the whole run. What the page then shows is written to its title.
ACTIONS = """<script>
(() => {
  const said = [], svg = document.querySelector(
    "figure.zoom > div > svg");
  const span = () => (svg.dataset.to - svg.dataset.from).toFixed(3);
  const seen = (name) => [...document.querySelectorAll("[data-series]")].filter((each) =>
    each.dataset.series === name && getComputedStyle(each).display !== "none").length;
  said.push(span(), seen("fifo") > 0, seen("sebf") > 0);
  const boxes = [...document.querySelectorAll(".policies input")];
  boxes.find((box) => box.value === "sebf").click();
  said.push(seen("fifo") > 0, seen("sebf") > 0);
  const box = svg.getBoundingClientRect(), left = 56 / 720, wide = 654 / 720;
  const at = (share) => ({clientX: box.left + (left + share * wide) * box.width,
                          clientY: box.top + 50, bubbles: true});
  svg.dispatchEvent(new PointerEvent("pointerdown", at(0.25)));
  svg.dispatchEvent(new PointerEvent("pointermove", at(0.5)));
  svg.dispatchEvent(new PointerEvent("pointerup", at(0.75)));
  said.push(span());
  svg.parentNode.querySelector("button").click();
  said.push(span(), document.querySelector(".key").textContent.trim().replace(/\\s+/g, "+"));
  boxes.find((box) => box.value === "sebf").click();
  said.push(seen("sebf") > 0);
  document.title = said.join(" ");
})();
</script></body>"""


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_in_a_browser_policies_are_hidden_and_timelines_zoomed(page_compared, tmp_path):
    """The flows of 1, 2 and 3 MB share a link of 1 MB/s: the run takes 6 s, half of it is 3 s."""
    path = tmp_path / "report.html"
    path.write_text(page_compared.replace("</body>", ACTIONS))
    shown = in_browser(path)
    title = re.search("<title>(.*?)</title>", shown)[1]
    assert title == "6.000 true true true false 3.000 6.000 fifo+sebf true"


@exhaustive
@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_long_timelines_have_ticks_at_whole_days(tmp_path):
    """240 days: eight ticks or fewer, at the next round step, 50 days."""
    flow = netsim.JobSpec(0, stages=[netsim.Stage("s", [(0, 1, 240 * 86400.0)])], hosts=[0, 1])
    path = save_report(netsim.simulate(netsim.big_switch(2, 1.0), [flow]), tmp_path / "report.html")
    assert re.findall('class="tick"[^>]*>([^<]*)<', in_browser(path)) == [
        "0", "50", "100", "150", "200"]


@undrawn
@pytest.mark.parametrize(("seeds", "said"), [
    ([0], "<p>One run each.</p>"), ([0, 1], "<p>All 2 seeds give the same: nothing in this")])
def test_intervals_are_promised_only_where_there_are_some(tmp_path, seeds, said):
    """The example of the paper draws nothing."""
    text = report_page(netsim.sweep("parrot-fig2", "parrot-fig2", allocator=["parrot", "lccf"],
                                    seed=seeds, folder=tmp_path / "sweep", progress=False))
    assert said in text
    assert "confidence" not in re.sub("<svg.*?</svg>", "", text, flags=re.DOTALL)
