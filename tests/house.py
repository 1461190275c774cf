"""The figures of the house: how large netsim is, and how far a run goes through it.

``python tests/house.py`` prints them beside those of another commit. People read them; of these
figures only circles and the order of rooms are enforced (``tests/test_imports.py``).
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]

#: What a line can be, in the order of the columns.
KINDS = ("code", "docstrings", "comments", "imports", "blank")

#: Modules of Numba that its documentation does not name, and what it is built on.
PRIVATE = re.compile(r"numba\.(core|np|cpython|_\w+)\b|llvmlite\b|_dynfunc\b")

#: Runs whose way through the files is followed; each is run twice, and watched the second time.
RUNS = {
    "a ring job of two coflows": """
import netsim
job = netsim.JobSpec(0, ranks=3, hosts=[0, 1, 2], iterations=2, nbytes="1MB",
                     pattern="ring-all-reduce")
def run():
    netsim.simulate(netsim.big_switch(4, "10Gbps"), netsim.Workload([job]), allocator="maxmin")
""",
    "a user's policy of four lines": """
import netsim
class Mine(netsim.Allocator):
    def allocate(self, view):
        return netsim.Allocation(order=view.total.argsort())
job = netsim.JobSpec(0, stages=[netsim.Stage("push", [(0, 1, 1e6), (1, 2, 2e6)])])
def run():
    netsim.simulate(netsim.big_switch(4, "10Gbps"), netsim.Workload([job]), allocator=Mine())
""",
}

#: Counts the calls of functions of netsim, those from one file to another, and the files.
WATCH = """
run()
import json, os, sys
home, calls, moves, files = os.path.dirname(netsim.__file__), 0, 0, set()
def watch(frame, event, value):
    global calls, moves
    file = frame.f_code.co_filename
    if event != "call" or not file.startswith(home):
        return
    caller = frame.f_back
    while caller is not None and not caller.f_code.co_filename.startswith(home):
        caller = caller.f_back
    files.add(file)
    calls += 1
    moves += caller is not None and caller.f_code.co_filename != file
sys.setprofile(watch)
run()
sys.setprofile(None)
print(json.dumps({"files": len(files), "moves between files": moves, "calls": calls}))
"""

#: A room that is not there.
NONE: Counter[str] = Counter()

Figures = dict[str, float]
Rooms = dict[str, Counter[str]]


@click.command()
@click.option("--against", default="HEAD~1", show_default=True, metavar="REV",
              help="The commit whose figures stand beside.")
@click.option("--cpu", "tiers", multiple=True, metavar="TIER=SECONDS",
              help="CPU seconds that a tier of the tests took; can be repeated.")
def main(against: str, tiers: tuple[str, ...]) -> None:
    """Print the figures of the working tree beside those of a commit."""
    now, rooms = measured(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        unpack(against, Path(folder))
        before, rooms_before = measured(Path(folder))
    for tier in tiers:
        name, _, seconds = tier.rpartition("=")
        now[f"CPU seconds of {name}"] = float(seconds)
    print(f"{'':48}{'now':>10}{against:>12}")
    for name, value in now.items():
        print(f"{name:48}{value:10,.0f}{shown(before.get(name)):>12}")
    print(f"\n{'room':18}{'files':>6}", *(f"{kind:>11}" for kind in KINDS), f"{'lines':>9}"
          f"{'before':>9}")
    for name in sorted({*rooms, *rooms_before}, key=lambda name: -lines_of(rooms.get(name, NONE))):
        room = rooms.get(name, NONE)
        print(f"{name:18}{room['files']:6}", *(f"{room[kind]:11,}" for kind in KINDS),
              f"{lines_of(room):9,}{lines_of(rooms_before.get(name, NONE)):9,}")


def shown(value: float | None) -> str:
    """Write a figure, or a dash for none."""
    return "-" if value is None else f"{value:,.0f}"


def lines_of(room: Counter[str]) -> int:
    """Sum the lines of all kinds."""
    return sum(room[kind] for kind in KINDS)


def unpack(revision: str, folder: Path) -> None:
    """Write the package and the docs as they were at a commit."""
    done = subprocess.run(["git", "archive", revision, "netsim", "docs", "topologies", "workloads"],
                          cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise click.ClickException(done.stderr.decode().strip())
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


def measured(root: Path) -> tuple[Figures, Rooms]:
    """Measure the tree in a folder."""
    texts = {name: path.read_text(encoding="utf-8") for name, path in modules(root).items()}
    rooms: Rooms = {}
    for name, text in texts.items():
        room = rooms.setdefault(room_of(name), Counter())
        room["files"] += 1
        room.update(kinds_of(text))
    total = sum(rooms.values(), Counter())
    arrows = {name: {other for other in imports(text, texts) if other not in (name, "netsim")}
              for name, text in texts.items() if name != "netsim"}
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in root.glob("docs/**/*.md"))
    return {
        "lines of netsim/": sum(total[kind] for kind in KINDS),
        **{f"    {kind}": total[kind] for kind in KINDS},
        "files": total["files"], "rooms": len(rooms) - 1, "floors of imports": floors(arrows),
        "circles of imports": circles(arrows),
        **{f"{name}: {what}": count for name, code in RUNS.items()
           for what, count in followed(root, code).items()},
        "private names of Numba and llvmlite": len(private_names(texts)),
        "words in docs/": words,
    }, rooms


def modules(root: Path) -> dict[str, Path]:
    """Map the name of each module of the package to its file."""
    return {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
            for path in sorted((root / "netsim").rglob("*.py"))}


def room_of(module: str) -> str:
    """Name the room of a module: the folder or loose module below the package."""
    return [*module.split("."), "__init__"][1]


def kinds_of(text: str) -> Counter[str]:
    """Count the lines of each kind in the text of a module."""
    kind = ["blank" if not line.strip() else
            "comments" if line.lstrip().startswith("#") else "code" for line in text.splitlines()]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            kind[node.lineno - 1:node.end_lineno] = (
                ["imports"] * (node.end_lineno - node.lineno + 1))
        elif (isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
              and ast.get_docstring(node) is not None):
            docstring = node.body[0]
            kind[docstring.lineno - 1:docstring.end_lineno] = (
                ["docstrings"] * (docstring.end_lineno - docstring.lineno + 1))
    return Counter(kind)


def imports(text: str, names: Mapping[str, object]) -> Iterator[str]:
    """Yield the modules of the package that a text imports, on any line."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module in names:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in names else node.module


def floors(arrows: Mapping[str, set[str]]) -> int:
    """Count the floors of the house: the longest way of imports from room to room."""
    rooms: dict[str, set[str]] = {}
    for name, others in arrows.items():
        rooms.setdefault(room_of(name), set()).update(map(room_of, others))
    floor: dict[str, int] = {}
    try:
        order = [*TopologicalSorter({room: others - {room} for room, others in rooms.items()}
                                    ).static_order()]
    except CycleError as error:
        raise click.ClickException(
            f"rooms in a circle: {' -> '.join(reversed(error.args[1]))}") from None
    for room in order:
        floor[room] = 1 + max((floor[other] for other in rooms.get(room, set()) - {room}),
                              default=0)
    return max(floor.values())


def circles(arrows: Mapping[str, set[str]]) -> int:
    """Count circles of imports: how many arrows are cut until none is left."""
    left = {name: set(others) for name, others in arrows.items()}
    for count in range(len(left)):
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            imported, importer = error.args[1][:2]
            left[importer].discard(imported)
        else:
            return count
    return len(left)


def followed(root: Path, code: str) -> dict[str, int]:
    """Run a program under a tree, and count the files and moves of its second run."""
    program = f"import sys; sys.path.insert(0, {str(root)!r})\n{code}\n{WATCH}"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                          check=True, cwd=root)
    return json.loads(done.stdout)


def private_names(texts: Mapping[str, str]) -> set[str]:
    """List the names that are imported from private modules of Numba."""
    found = set()
    for text in texts.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {name for alias in node.names
                          if PRIVATE.match(name := f"{node.module}.{alias.name}")}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names if PRIVATE.match(alias.name)}
    return found


if __name__ == "__main__":
    main()
