"""Sweeps of policies of a notebook or a script, which no other process can import."""

import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

import netsim
from netsim.errors import InputError
from netsim.studies.grid import runs_of_calls
from tests.pairs import exhaustive, few

ROOT = Path(netsim.__file__).parent.parent

#: Policies as a user writes them, with what they use beside them: a constant, a function, a class.
OWN = """
import dataclasses
import numpy as np
import netsim

PART = 0.5

def scaled(shares):
    return shares * PART

class Slowed(netsim.Allocator):
    def allocate(self, view):
        return netsim.Allocation(shares=scaled(view.greedy(np.arange(len(view)))))

@dataclasses.dataclass
class Partly(Slowed):
    part: float = 1.0

    def allocate(self, view):
        whole = super().allocate(view).shares / PART
        return netsim.Allocation(shares=whole * self.part)
"""

#: Prints the total JCTs and the keys, and fails if a run did.
SWEEP = """
net = netsim.big_switch(2, 1e6)
jobs = netsim.Workload([netsim.JobSpec(0, stages=[netsim.Stage("c", [(0, 1, 2e6)])],
                                       hosts=[0, 1])], name="one")
found = netsim.sweep(net, jobs, allocator=[{given}], {options})
assert not len(found.failures), found.failures["error"].tolist()
print(*found.table["jct_total_s"], *found.table["key"])
"""

#: Runs one piece of code after the other in `__main__`, as a notebook does; without a file.
NOTEBOOK = """
import sys
for number, cell in enumerate({cells!r}):
    exec(compile(cell, f"/tmp/kernel_{process}/{{number}}.py", "exec"), globals())
"""


def run(*arguments, text=None):
    """What a process prints, word by word."""
    done = subprocess.run([sys.executable, *arguments], input=text, capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


def as_script(folder, own, sweep):
    path = folder / "my_study.py"
    path.write_text(own + sweep)
    return run(str(path))


def as_notebook(own, sweep):
    return run("-", text=NOTEBOOK.format(cells=[own, sweep], process=1))


@pytest.mark.parametrize(("where", "options"), few(
    [("notebook", "workers=2"), ("notebook", "workers=1"), ("script", "workers=1"),
     ("script", "workers=2")], 1))
def test_policies_of_main(tmp_path, where, options):
    """A script without a guard, and a notebook: 2 MB at 1 MB/s in full, and at half and a quarter.

    The process says nothing else, so nothing in it runs twice.
    """
    given = '"maxmin", Slowed, Partly(0.25), "__main__:Partly:part=1.0"'
    sweep = SWEEP.format(given=given, options=options)
    printed = as_script(tmp_path, OWN, sweep) if where == "script" else as_notebook(OWN, sweep)
    assert [float(word) for word in printed[:4]] == [2, 4, 8, 2]


@exhaustive
def test_policies_of_main_in_an_experiment_by_name(tmp_path):
    """`__main__:Partly` in an experiment that a script makes: half the capacity, twice the time."""
    sweep = """
experiment = netsim.Experiment(network={"name": "parrot-fig2"}, workload={"name": "parrot-fig2"})
found = netsim.sweep_experiment(experiment, {"allocator": [
    "__main__:Partly", "__main__:Partly:part=0.5"]}, workers=2)
assert not len(found.failures), found.failures["error"].tolist()
print(*found.table["jct_total_s"])
"""
    whole, half = map(float, as_script(tmp_path, OWN, sweep))
    assert half == pytest.approx(2 * whole)


@exhaustive
def test_other_parts_of_a_run_may_be_of_main(tmp_path):
    """A scheduler, a placement and a pattern: two jobs of 2 GPUs, 1 s each, in turn."""
    own = """
import netsim

class Eager:
    def decide(self, view):
        room = view.room()
        placed = [(job, room.place(job)) for job in view.waiting]
        return [(job, gpus) for job, gpus in placed if gpus is not None]

class Last:
    def scope(self, cluster, job, load):
        return list(reversed(range(cluster.total)))
    def choose(self, cluster, job, candidates, load):
        return list(candidates[:job.ranks])

class Chain:
    def stages(self, ranks, nbytes, rng):
        return [netsim.Stage("c", [(0, 1, nbytes)])]

jobs = [netsim.JobSpec(number, pattern=Chain(), ranks=2, nbytes=1e6) for number in (0, 1)]
found = netsim.sweep(netsim.Cluster(gpus=[1, 1, 1], nic=1e6), netsim.Workload(jobs, name="two"),
                     scheduler=[Eager(), "fifo"], placement=Last(), execution="fabric", workers=2)
assert not len(found.failures), found.failures["error"].tolist()
for row, result in found.results():
    print(row["jct_total_s"], *result.jobs["placement"])
"""
    assert as_script(tmp_path, own, "") == ["3.0", "1:1", "2:1", "1:1", "2:1"] * 2


#: Prints the keys of runs of the policies above.
KEYS = """
from netsim.studies.grid import runs_of_calls
print(*[cell.key for cell in runs_of_calls(
    {"network": "parrot-fig2", "workload": "parrot-fig2"},
    {"allocator": {"maxmin": "maxmin", "mine": Slowed(), "named": "__main__:Slowed",
                   "other": Partly(0.25)}}, [0])])
"""


def keys(*variants, process=1):
    """The keys that each of some variants of the policies gives in one session after the other."""
    cells = [cell for own in variants for cell in (own, KEYS)]
    printed = run("-", text=NOTEBOOK.format(cells=cells, process=process))
    return [printed[4 * place:4 * place + 4] for place in range(len(variants))]


@exhaustive
def test_the_key_has_what_a_policy_of_main_is_made_of():
    """The same policy in another session has the same keys; with another helper it has others.

    `Partly` is made of `Slowed`, and so of all that this one uses.
    """
    before, *changed, again = keys(OWN, *[OWN.replace(*change) for change in (
        ("PART = 0.5", "PART = 0.25"), ("shares * PART", "shares * PART * 0.5"),
        ("shares * PART", "shares * min(PART, 1.0)"))], OWN)
    assert len(set(before)) == 4
    assert again == before
    for after in changed:
        assert [one == other for one, other in zip(after, before, strict=True)] == [
            True, False, False, False]
    moved, default = keys("# a comment\n\n" + OWN,
                          OWN.replace("part: float = 1.0", "part: float = 0.75"), process=2)
    assert moved == before
    assert [one == other for one, other in zip(default, before, strict=True)] == [
        True, True, True, False]


@exhaustive
def test_a_script_that_is_edited_goes_on_where_its_policies_are_the_same(tmp_path):
    """Another seed costs one run more; the other runs are found."""
    options = "folder={!r}, seed=range({}), progress=lambda *told: print(*told)"
    folder = str(tmp_path / "s")
    first = SWEEP.format(given="Slowed()", options=options.format(folder, 1))
    second = SWEEP.format(given="Slowed()", options=options.format(folder, 2))
    assert as_script(tmp_path, OWN, first)[:3] == ["1", "0", "1"]
    assert as_script(tmp_path, OWN, second)[:4] == ["2", "0", "2", "4.0"]


class Locked(netsim.Allocator):
    """Holds what no other process can have."""

    def __init__(self):
        self.lock = threading.Lock()

    def __deepcopy__(self, memo):
        return Locked()

    def allocate(self, view):
        return netsim.Allocation(weights=1.0)


def test_what_cannot_be_sent_says_what_and_why():
    with pytest.raises(InputError, match=r"allocator: <.*Locked.*> cannot be sent to another "
                                         r"process: cannot pickle '_thread.lock' object"):
        netsim.sweep("parrot-fig2", "parrot-fig2", allocator={"mine": Locked(), "other": "lccf"},
                     workers=2)


class Open(netsim.Allocator):
    """Writes to a file, as an allocator that is being debugged may."""

    def __init__(self):
        self.file = sys.__stderr__

    def allocate(self, view):
        return netsim.Allocation(weights=1.0)


@pytest.mark.parametrize("run", [
    lambda: netsim.simulate("parrot-fig2", "parrot-fig2", allocator=Open()),
    lambda: netsim.compare("parrot-fig2", "parrot-fig2", allocators=[Open(), "lccf"]),
    lambda: netsim.sweep("parrot-fig2", "parrot-fig2", allocator=[Open(), "lccf"], workers=2),
    lambda: netsim.sweep("parrot-fig2", "parrot-fig2", allocator={"mine": Open(), "other": "lccf"},
                         workers=2)])
def test_what_cannot_be_copied_says_so_too(run):
    """It has no __deepcopy__, as `Locked` has, and most have none."""
    with pytest.raises(InputError, match=r"allocator: <.*Open.*> cannot be copied for a run: "
                                         "cannot pickle '_io.TextIOWrapper' object"):
        run()


@exhaustive
def test_what_the_other_process_cannot_import_says_so(monkeypatch):
    """A module that is only here: its runs fail with the true reason, the others do not."""
    module = types.ModuleType("only_here")
    exec("import netsim\nclass Mine(netsim.Allocator):\n    def allocate(self, view):\n"
         "        return netsim.Allocation(weights=1.0)\n", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    found = netsim.sweep("parrot-fig2", "parrot-fig2", allocator=["lccf", module.Mine()],
                         workers=2)
    assert found.table["allocator"].tolist() == ["lccf"]
    error, = found.failures["error"]
    assert "No module named 'only_here'" in error
    assert "killed" not in error


def test_classes_of_a_function_are_sent_too():
    """They have no name by which another process could find them."""
    class Local(netsim.Allocator):
        def allocate(self, view):
            return netsim.Allocation(weights=1.0)

    cell, = runs_of_calls({"network": "parrot-fig2", "workload": "parrot-fig2"},
                           {"allocator": {"local": Local()}}, [0])
    assert cell.key
