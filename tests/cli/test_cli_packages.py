"""Plug-ins of other packages: found by name, listed, refused, and part of a run's key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import netsim as simulator
from netsim.allocators import ALLOCATORS
from netsim.base import plugins
from netsim.base.plugins import without_code
from netsim.errors import InputError, NetsimWarning, UnknownNameError
from netsim.network import make_network
from netsim.predictors import Forecast
from netsim.schedulers.registry import SCHEDULERS
from netsim.studies.code_version import own_modules
from netsim.workload.history import History
from tests.pairs import exhaustive

CODE = """\
import numpy as np
import netsim
from netsim import Flow, Stage

class Backwards(netsim.Allocator):
    \"\"\"The last coflow first.\"\"\"

    wakes_on = netsim.Event.COFLOW

    def __init__(self, offset=0):
        self.offset = offset

    def allocate(self, view):
        return netsim.Allocation(order=np.arange(len(view))[::-1].copy())

class Every:
    \"\"\"Start every job that fits.\"\"\"

    def decide(self, view):
        room = view.room()
        placed = [(job, room.place(job)) for job in view.waiting]
        return [(job, gpus) for job, gpus in placed if gpus is not None]

class Last:
    \"\"\"The latest of all jobs.\"\"\"

    def fit(self, X, y):
        self.last = y[-1]

    def predict(self, X):
        return [self.last] * len(X)

class Fan:
    \"\"\"From rank 0 to all others.\"\"\"

    def stages(self, ranks, nbytes, rng):
        return [Stage("fan", [Flow(0, rank, nbytes) for rank in range(1, ranks)])]

def pairs(path):
    \"\"\"A size a line.\"\"\"
    return netsim.Workload([netsim.JobSpec(k, stages=[Stage("all", [Flow(0, 1, float(line))])])
                            for k, line in enumerate(path.read_text().split())])

def line(hosts=3):
    \"\"\"A switch.\"\"\"
    return netsim.big_switch(hosts, "8Mbps")
"""

POINTS = """\
[netsim.allocators]
backwards = {module}:Backwards
[netsim.schedulers]
every = {module}:Every
[netsim.predictors]
last = {module}:Last
[netsim.patterns]
fan = {module}:Fan
[netsim.formats]
pairs = {module}:pairs
[netsim.topologies]
line = {module}:line
"""


def install(folder: Path, points: str, name: str = "fast-flows", version: str = "1.2") -> None:
    """Write what an installation leaves: the metadata and the entry points of a package."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(points)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, like site-packages."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(plugins, "_loaded", {})  # these packages are gone after a test
    return site


@pytest.fixture
def module(folder: Path) -> str:
    """The module of an installed package, under a name of its own, for modules stay loaded."""
    name = f"flows_{abs(hash(folder))}"
    (folder / f"{name}.py").write_text(CODE)
    install(folder, POINTS.format(module=name))
    return name


JOBS = [simulator.JobSpec(k, stages=[simulator.Stage("a", [(0, 1, "1MB")])], hosts=range(3))
        for k in range(2)]


def test_a_name_is_enough(module, tmp_path) -> None:
    """The last coflow first: the second job ends at 1 s, the first at 2 s."""
    assert module not in sys.modules
    network = make_network("line", hosts=3)
    done = simulator.simulate(network, JOBS, allocator={"name": "backwards", "offset": 2})
    assert done.jobs["finish_s"].tolist() == [2, 1]
    (tmp_path / "sizes.dat").write_text("1e6 2e6")
    jobs = simulator.read_workload(tmp_path / "sizes.dat", format="pairs")
    fan = simulator.JobSpec(9, pattern="fan", ranks=3, nbytes=1e6, hosts=range(3))
    assert len(simulator.simulate(network, [*jobs, fan], allocator="backwards").jobs) == 3
    ring = simulator.JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes=1e6, iterations=2)
    cluster = simulator.Cluster(servers=1, gpus=2)
    assert len(simulator.simulate(cluster, [ring], scheduler="every").jobs) == 1
    assert Forecast("last", History([1, 1], [0, 0], [4, 9])).predict(0, 1, 0) == 9


def test_others_are_named_among_the_choices(module) -> None:
    with pytest.raises(UnknownNameError, match=r"'backward' \(did you mean 'backwards'\?\)"):
        simulator.make_allocator("backward")
    with pytest.raises(UnknownNameError, match="unknown option of allocator 'backwards' 'ofset'"):
        simulator.make_allocator("backwards:ofset=1")


def test_they_are_listed_with_their_package(netsim, module) -> None:
    said = netsim("list", "allocators").stdout
    assert "of package fast-flows 1.2: The last coflow first." in said
    assert "of package fast-flows 1.2: Start every job" in netsim("list", "schedulers").stdout
    said = netsim("list", "allocators", "backwards").stdout
    assert said.startswith("backwards: of package fast-flows 1.2: The last coflow first.")
    assert "offset  0" in said
    assert "fast-flows" not in netsim("--no-plugins", "list", "allocators").stdout


def test_they_are_refused(netsim, refused, module, monkeypatch) -> None:
    why = "allocator 'backwards' of package fast-flows 1.2 is code to load, which is not allowed"
    given = ("run", "fig2.toml", "--set", "allocator=backwards")
    assert why in refused(*given, "--no-plugins")
    assert why in refused("--no-plugins", *given)
    with without_code(), pytest.raises(InputError, match=why):
        simulator.make_allocator("backwards")
    with without_code(), pytest.raises(UnknownNameError) as caught:
        simulator.make_allocator("unknown")
    assert "backwards" not in str(caught.value)
    monkeypatch.setenv("NETSIM_NO_PLUGINS", "1")
    assert why in refused(*given)
    for name in ("backwards", f"{module}:Backwards"):
        with pytest.raises(InputError, match="which is not allowed without plug-ins"):
            simulator.make_allocator(name)
    assert module not in sys.modules
    monkeypatch.setenv("NETSIM_NO_PLUGINS", "0")
    assert netsim(*given, "--quiet").exit_code == 0


def test_the_option_of_all_commands_confines_files_too(refused, here) -> None:
    (here / "theirs").mkdir()
    (here / "jobs.csv").write_text("job,model,iterations\n")
    (here / "theirs" / "w.toml").write_text('file = "../jobs.csv"\n')
    said = refused("--no-plugins", "trace", "convert", "theirs/w.toml", "out.json")
    assert "leads out of the folder" in said


def test_names_of_netsim_stay_its_own(folder) -> None:
    install(folder, "[netsim.allocators]\nfifo = nowhere:Mine\nnew = nowhere:Mine\n"
                    "coflowsim-fair = nowhere:Mine\nb:c = nowhere:Mine\n")
    with pytest.warns(NetsimWarning) as told:
        assert "fifo" not in ALLOCATORS.installed
    assert [str(each.message) for each in told] == [
        f"package fast-flows 1.2 has a plug-in {name!r} in netsim.allocators, which is refused: "
        'netsim has one of this name; "module:Class" still selects it'
        for name in ("fifo", "coflowsim-fair")] + [
        "package fast-flows 1.2 has a plug-in 'b:c' in netsim.allocators, which is refused: names "
        "consist of letters, digits, '-', '_' and '.'"]
    assert type(simulator.make_allocator("fifo")).__module__.startswith("netsim.")
    assert list(ALLOCATORS.installed) == ["new"]


@pytest.mark.parametrize(("place", "why"), [
    ("nowhere_at_all:Mine", "cannot be loaded: No module named 'nowhere_at_all'"),
    ("json:Mine", "cannot be loaded: the module 'json' has no attribute 'Mine'"),
    ("json", "cannot be loaded: the module 'json' has no attribute ''"),
    ("json:JSONDecoder", "'mine' is not an allocator: it must derive from netsim.Allocator")])
def test_a_broken_one_is_an_error_when_it_is_used(netsim, folder, place, why) -> None:
    install(folder, f"[netsim.allocators]\nmine = {place}\n")
    assert "mine" in ALLOCATORS.installed
    assert netsim("run", "fig2.toml", "--quiet").exit_code == 0
    assert "of package fast-flows 1.2: " in netsim("list", "allocators").stdout
    with pytest.raises(InputError) as caught:
        simulator.make_allocator("mine")
    assert why in str(caught.value)


def test_two_packages_may_not_mean_two_things(module, folder) -> None:
    install(folder, "[netsim.allocators]\nbackwards = other:Backwards\n", "other-flows", "0.1")
    with pytest.raises(InputError) as caught:
        simulator.make_allocator("backwards")
    assert str(caught.value) in {
        f'allocator \'backwards\' of package {both} is not one: choose by "module:Class"'
        for both in ("fast-flows 1.2 and other-flows 0.1", "other-flows 0.1 and fast-flows 1.2")}


def test_a_damaged_package_leaves_others_alone(module, folder) -> None:
    install(folder, "[netsim.allocators]\nno equals sign\n", "broken")
    with pytest.warns(NetsimWarning, match="package broken: its entry points cannot be read"):
        assert simulator.make_allocator("backwards").offset == 0


def test_the_key_of_a_run_has_their_code(module, folder) -> None:
    """By name, also of an option of another policy; an edit of their file changes the key."""
    for settings in ({"allocator": "backwards"}, [{"name": "backwards", "offset": 1}],
                     "backwards:offset=2"):
        simulator.make_allocator("backwards")
        assert own_modules(settings) == (module,)
    SCHEDULERS.make("spjf", {"predictor": "last"})
    assert own_modules({"scheduler": "spjf:predictor=last"}) == (module,)
    assert own_modules({"allocator": "sebf"}) == ()


@exhaustive
def test_a_sweep_makes_a_run_again_after_an_edit(here, module, folder) -> None:
    """Of the runs of two allocators, that of the package's; the other is found by its key."""
    kept = [_stored(here, folder), _stored(here, folder)]
    source = folder / f"{module}.py"
    source.write_text(source.read_text().replace("[::-1].copy()", "[::1].copy()"))
    kept.append(_stored(here, folder))
    assert kept[0] == kept[1]
    assert (len(kept[0]), len(kept[2] - kept[0])) == (2, 1)


def _stored(here: Path, folder: Path) -> set[str]:
    """Sweep in a new process; return the names of the stored runs."""
    code = f"import sys; sys.path.append({str(folder)!r}); from netsim.cli.main import main; main()"
    subprocess.run([sys.executable, "-c", code, "sweep", "fig2.toml", "--vary",
                    "allocator=sebf,backwards", "--out", "kept", "--quiet"], check=True)
    return {path.name for path in (here / "kept" / "runs").iterdir()}


def test_nothing_is_read_for_netsim_s_own_names(monkeypatch) -> None:
    monkeypatch.setattr(plugins, "_installed", lambda *_: pytest.fail("read"))
    simulator.simulate("parrot-fig2", "parrot-fig2", allocator="aalo:queues=3")


@exhaustive
def test_nothing_is_read_in_a_new_process() -> None:
    code = ("from netsim.base import plugins; import netsim\n"
            "def refuse(*_): raise SystemExit('read')\n"
            "plugins._installed = refuse\n"
            "netsim.simulate('parrot-fig2', 'parrot-fig2', allocator='aalo:queues=3')\n")
    subprocess.run([sys.executable, "-c", code], check=True)
