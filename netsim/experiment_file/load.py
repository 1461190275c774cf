"""Experiment files: read, overridden and swept. Untrusted ones name no code or files elsewhere."""

from __future__ import annotations

import copy
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from netsim.base.files import (
    atomic_write,
    confined,
    read_text,
    ready_made_folder,
    refusal,
    stem_of,
)
from netsim.base.plugins import parse_named, without_code
from netsim.base.reading import ready_made_in
from netsim.base.units import is_digits, parse_value, question_units
from netsim.base.values import as_list, known_names, plain
from netsim.errors import OutputError, SpecError, UnknownNameError
from netsim.experiment_file.experiment import NAMED, Experiment, spec_hash, table_at
from netsim.experiment_file.lines import line_of, lines_of_keys
from netsim.experiment_file.ranges import Points, Range
from netsim.experiment_file.tables import SweepTable
from netsim.experiment_file.values import seeds_of
from netsim.network.files import changed_name
from netsim.text import toml_problem

# --- what untrusted files may name ---------------------------------------------------------

#: Tables that may name a file.
_SOURCES = ("network", "edge_cloud", "workload")

_FILE = re.compile(rf"(sweep\.vary\.)?({'|'.join(_SOURCES)})(\.\d+)?(\.expert_load)?\.file(\.\d+)?")

#: Keys that may name a file instead of an algorithm, with this suffix.
_PROGRAM = re.compile(r"(sweep\.vary\.)?workload(\.\d+)?\.pattern(\.\d+)?\.algorithm(\.\d+)?")

_XML = ".xml"

#: Tables in which all names are those of policies or of their parts.
_OF_POLICIES = ("allocator", "scheduler", "placement", "execution", "transport", "compare")

_VARIED = re.compile(rf"sweep\.vary\.({'|'.join(_OF_POLICIES)})\b.*")

#: Keys of other tables whose values are names, too: those tables also hold paths, and labels.
_NAMES = re.compile(r"(sweep\.vary\.)?(network(\.\d+)?\.kind|edge_cloud(\.\d+)?\.kind"
                    r"|workload(\.\d+)?\.(format|trace(\.\d+)?(\.name)?|pattern(\.\d+)?(\.name)?))(\.\d+)?")


def code_named(keys: Mapping[str, Any]) -> list[str]:
    """List the keys of an experiment whose values name code, ``"module:Class"``."""
    return [f"{path}: {value!r}" for _, _, path, value in _values(keys, "")
            if isinstance(value, str)
            and (path.partition(".")[0] in _OF_POLICIES or _VARIED.fullmatch(path)
                 or _NAMES.fullmatch(path))
            and _is_code(value)]


def _is_code(text: str) -> bool:
    table = parse_named(text)
    options = [value for _, _, _, value in _values(table, "") if isinstance(value, str)]
    return ":" in table["name"] or any(_is_code(value) for value in options if value != text)


def files_named(keys: dict[str, Any]) -> Iterator[tuple[Any, Any, str, str]]:
    """Yield the container, index, key path and value of each file named in an experiment."""
    for holder, place, path, value in _values(keys, ""):
        if isinstance(value, str) and (_FILE.fullmatch(path) or (
                value.endswith(_XML) and _PROGRAM.fullmatch(path))):
            yield holder, place, path, value


def _values(tree: Any, path: str) -> Iterator[tuple[Any, Any, str, Any]]:
    """Yield the container, index, key path and value of each value in tables and lists."""
    pairs: Any = ()
    if isinstance(tree, dict):
        pairs = list(tree.items())
    elif isinstance(tree, list):
        pairs = list(enumerate(tree))
    for place, value in pairs:
        below = ".".join(part.strip() for part in f"{path}.{place}".split(".")).lstrip(".")
        yield tree, place, below, value
        yield from _values(value, below)


def read_with(file: str | Path) -> Iterator[Path]:
    """Yield a file and the files that are read with it.

    The other files are those named in a TOML description, and further tables of a trace.
    """
    for path in (Path(file), *_named_in(Path(file))):
        yield path
        if path.name:  # it may be a folder, which the reader refuses
            yield path.with_suffix(".header")
        yield from path.parent.glob("pai_*_table.*")


def _named_in(path: Path) -> Iterator[Path]:
    try:
        named = tomllib.loads(read_text(path)).get("file")
    except (OSError, ValueError, RecursionError):
        return  # it is not a description; the reader reports the error
    if isinstance(named, str):
        yield path.parent / named


# --- reading -------------------------------------------------------------------------------

@known_names
def load_experiment(source: str | Path, overrides: Iterable[str] = (), *,
                    plugins: bool = True, single: bool = False) -> Experiment:
    """Read an experiment file.

    Parameters
    ----------
    source : path-like or str
        A TOML file, or the name of a ready-made experiment.
    overrides : iterable of str
        Settings that replace those of the file: ``"seed=3"``, ``"network.capacity=40Gbps"``,
        ``"events.0.at=5s"``. Values that are not valid TOML are strings. ``"allocator.name=sebf"``
        means the same as ``"allocator=sebf"``: it also drops the options of the allocator that it
        replaces.
    plugins : bool
        Whether the file may name user-defined code, ``"module:Class"``, which is then loaded. If
        False, neither the file nor files that it names may refer to files outside of its folder.
    single : bool
        Whether to leave out the tables for comparisons and sweeps, without checking them.

    Returns
    -------
    Experiment
        Paths of its keys `file` are relative to the folder of the experiment file, or to the
        current folder if an override gave them.

    Raises
    ------
    SpecError
        If anything is wrong in the file; the message lists all problems, each with its key path
        and its line in the file, or the override that caused it. If the file names code or files
        although it must not, nothing is loaded, and nothing outside of its folder is read.
    UnknownNameError
        If there is neither a file nor a ready-made experiment of this name.
    """
    draft = Draft.read(source, plugins=plugins)
    for override in overrides:
        draft.override(override)
    return draft.build(single=single)


class Draft:
    """The unchecked keys of an experiment, and the overrides that replaced some of them."""

    def __init__(self, keys: dict[str, Any], path: Path | None = None, *,
                 plugins: bool = True, text: str = "") -> None:
        #: Keys as in a file, changed in place; the file that they were read from, if any.
        self.keys, self.path, self.plugins = keys, path, plugins
        _expand_policies(keys)
        self._text = text  # of the file, for the lines of its keys
        #: What did not come from the file: paths of keys, and the overrides; "" for arguments.
        self._settings: list[tuple[list[str], str]] = []

    @classmethod
    def read(cls, source: str | Path, *, plugins: bool = True) -> Draft:
        """Read an experiment file; see `load_experiment`."""
        path = _locate(source)
        text, keys = _read(path)
        draft = cls(keys, path, plugins=plugins, text=text)
        problems = []
        with nullcontext() if plugins else confined(path.parent):
            for table, place, key, file in files_named(keys):
                table[place] = os.path.abspath(path.parent / file)
                if (reason := refusal(table[place])) is not None:
                    problems.append(f"{key}: {file!r} {reason}")
        if problems:
            raise draft.error(problems)
        keys.setdefault("name", re.sub(r"[^\w.+-]+", "-", stem_of(path)).strip("-.+")[:100]
                        or "experiment")
        return draft

    @classmethod
    def of(cls, experiment: Experiment) -> Draft:
        """Take the keys of an experiment."""
        keys = experiment.model_dump(exclude_none=True)
        for path in experiment.seeded:
            del table_at(keys, path)["seed"]
        if experiment.preemption is not None:  # its defaults depend on where jobs run
            keys["preemption"] = experiment.preemption.model_dump(exclude_unset=True)
        return cls(keys)

    def copy(self) -> Draft:
        """Make an independent copy."""
        draft = Draft(copy.deepcopy(self.keys), self.path, plugins=self.plugins, text=self._text)
        draft._settings = [*self._settings]
        return draft

    def override(self, setting: str) -> None:
        """Apply an override ``key.path=value``."""
        key, equals, text = setting.partition("=")
        if not equals:
            raise SpecError([f"{setting!r} is not a setting; write it as key.path=value"])
        self.put(key, parse_value(text), setting)

    def put(self, key: str, value: Any, setting: str) -> None:
        """Set a value; messages about problems that the value causes contain `setting`."""
        *parents, last = _path(key)
        if not (last and all(parents)):
            raise SpecError([f"{setting!r} is not a setting; write it as key.path=value"])
        table: Any = self.keys
        for part in parents:
            table = _entry(table, part, setting)
        _relabel(self.keys, [*parents, last], value)
        table[_key(table, last, setting)] = plain(value)
        _expand_policies(self.keys)
        self.replaced(key, setting)

    def replaced(self, key: str, setting: str = "") -> None:
        """Note that the value of a key is not that of the file."""
        self._settings.append((_path(key), setting))

    def build(self, single: bool = False) -> Experiment:
        """Make the experiment; with `single`, without its tables ``compare`` and ``sweep``."""
        if not self.plugins and (named := code_named(self.keys)):
            raise self.error(f"{each} names code to load, which is not allowed without plug-ins"
                             for each in named)
        try:
            # In Python, numbers are in base units.
            with (nullcontext() if self.plugins else self._confined(),
                  nullcontext() if self.plugins else without_code(),
                  question_units(self.path is not None)):
                return Experiment(**{name: value for name, value in self.keys.items()
                                     if not (single and name in ("compare", "sweep"))})
        except SpecError as error:
            raise self.error(error.problems) from None

    def error(self, problems: Iterable[str]) -> SpecError:
        """Make the error of problems that begin with keys, whose lines or overrides it names."""
        told, lines = [], []
        known = lines_of_keys(self._text)
        for problem in problems:
            where = problem.partition(":")[0].split(".")
            setting = next((setting for path, setting in reversed(self._settings)
                            if where[:len(path)] == path), None)
            told.append(f"{problem} (set by {setting!r})" if setting else problem)
            lines.append(line_of(problem, known) if setting is None else None)
        return SpecError(told, self.path, lines)

    def _confined(self) -> AbstractContextManager[None]:
        """Restrict reading to the folder of the file, and to files that overrides name."""
        folders = [] if self.path is None else [self.path.parent]
        with confined(*folders):
            others = [file for _, _, _, file in files_named(self.keys) if refusal(file)]
        return confined(*folders, files=[path for file in others for path in read_with(file)])


def ready_made_experiments() -> dict[str, str]:
    """List the ready-made experiments: name to one-line description."""
    return ready_made_in("workloads", lambda table: "workload" in table)


def template(of: str = "network") -> str:
    """Read the experiment file for ``"network"``, ``"cluster"`` or ``"edge"`` with every option.

    Its first line names the schema that comes with netsim, for editors.
    """
    schema = Path(__file__).resolve().with_name("experiment.schema.json").as_uri()
    return f"#:schema {schema}\n" + read_text(Path(__file__).with_name(f"template-{of}.toml"))


def write_template(path: str | Path, of: str = "network") -> Path:
    """Write `template` to a new file; existing files are not replaced."""
    if os.path.lexists(path):
        raise OutputError(f"{path}: exists already, and is left as it is")
    with atomic_write(path) as temporary:
        temporary.write_text(template(of), encoding="utf-8")
    return Path(path)


def _locate(source: str | Path) -> Path:
    name = os.fspath(source)
    if isinstance(source, Path) or Path(name).name != name or Path(name).suffix:
        return Path(source)
    known = ready_made_experiments()
    if name in known:
        return ready_made_folder("workloads") / f"{name}.toml"
    if os.path.exists(name):
        return Path(name)
    raise UnknownNameError("experiment", name, known)


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """Read a file: its text and its keys."""
    text = ""
    try:
        text = read_text(path)
        return text, tomllib.loads(text)
    except OSError as error:
        raise SpecError([f"cannot be read: {error.strerror}"], path) from error
    except (ValueError, RecursionError) as error:
        raise SpecError([toml_problem(error, text)], path) from error


def _path(key: str) -> list[str]:
    """The parts of the key path whose value a setting replaces.

    Setting the name of a policy replaces its whole table, so that the new policy has its defaults.
    """
    parts = [part.strip() for part in key.split(".")]
    named = parts[:-1] if parts[-1] == "name" else []
    if (len(named) == 1 and named[0] in NAMED) or (
            len(named) == 3 and named[:2] in (["compare", "allocators"],
                                              ["compare", "schedulers"])):
        return named
    return parts


def _relabel(keys: Mapping[str, Any], path: list[str], value: Any) -> None:
    """Add the changed options to the label of a network, if it has one."""
    table = keys.get("network")
    if len(path) != 2 or path[0] != "network" or not isinstance(table, dict):
        return
    # Without a kind or a file, the name selects a ready-made network and is not a label.
    is_label = not {"kind", "file"}.isdisjoint({*table, path[1]})
    if (is_label and isinstance(table.get("name"), str) and path[1] not in ("name", "sha256")
            and table.get(path[1]) != value):
        table["name"] = changed_name(table["name"], {path[1]: value})


def _entry(table: Any, part: str, override: str) -> Any:
    """The table or list at a key, a new table if nothing is there."""
    key = _key(table, part, override)
    entry = table[key] if isinstance(table, list) else table.setdefault(key, {})
    if not isinstance(entry, dict | list):
        raise SpecError([f"{override!r}: {part!r} is not a table, but {entry!r}"])
    return entry


def _key(table: Any, part: str, override: str) -> Any:
    if isinstance(table, dict):
        return part
    if not (is_digits(part) and int(part) < len(table)):
        raise SpecError([f"{override!r}: {part!r} is not the number of an entry; there are "
                         f"{len(table)}, numbered from 0"])
    return int(part)


def _expand_policies(keys: dict[str, Any]) -> None:
    """Replace names of policies by tables, so that an override can add an option."""
    for name in NAMED:
        if isinstance(keys.get(name), str):
            keys[name] = parse_named(keys[name])


# --- sweeps --------------------------------------------------------------------------------
def prepare(experiment: Experiment | str | Path | Draft,
            vary: Mapping[str, Any] | None, seeds: int | Sequence[int] | None,
            points: int | Points | None = None) -> tuple[Draft, SweepTable]:
    """Separate the keys of an experiment from the grid of varied settings.

    It is a SpecError if there is nothing to vary.
    """
    draft = experiment if isinstance(experiment, Draft) else (
        Draft.of(experiment) if isinstance(experiment, Experiment) else Draft.read(experiment))
    draft = draft.copy()
    table = draft.keys.get("sweep", {})
    if not isinstance(table, Mapping):
        _base(draft)  # raises an error with the key path
    table = dict(table)
    if vary is not None:
        drawn = any(isinstance(values, Range) for values in vary.values())
        table = table | {"points": table.get("points") if drawn else None, "vary": {
            _spelled(key): values if isinstance(values, Range) else list(as_list(
                values, key, object, "values"))
            for key, values in vary.items()}}
    if points is not None:
        table = table | {"points": points}
    if seeds is not None:
        table = table | {"seeds": seeds if isinstance(seeds, int) else plain(list(seeds))}
        seeds_of(table["seeds"])
    draft.keys["sweep"] = table
    for key, given in (("vary", vary), ("points", points), ("seeds", seeds)):
        if given is not None:
            draft.replaced(f"sweep.{key}")
    grid = _base(draft).sweep
    del draft.keys["sweep"]
    if not grid.vary and grid.seeds == 1:
        raise SpecError(["sweep: there is nothing to vary: give values for a key (--vary "
                         "network.capacity=10Gbps,40Gbps) or more than one seed (--seeds 10)"])
    return draft, grid


def _base(draft: Draft) -> Experiment:
    """Make the experiment that is varied, without keys that may only be valid in its variants."""
    base = draft.copy()
    base.keys.pop("preemption", None)  # a varied scheduler may be one of chunks
    return base.build()


def _spelled(key: str) -> str:
    return ".".join(part.strip() for part in key.split("."))


def common_keys(draft: Draft) -> dict[str, Any]:
    """The keys that all runs in one folder must have in common."""
    return {key: value for key, value in draft.keys.items()
            if key not in ("sweep", "compare", "seed", "description")}


def default_sweep_folder(draft: Draft, vary: Mapping[str, Any] | None = None,
                         seeds: int | Sequence[int] | None = None,
                         points: int | Points | None = None) -> Path:
    """The default folder of a sweep, ``sweeps/<name>-<hash8>``, which is another for each grid."""
    swept, grid = prepare(draft, vary, seeds, points)
    keys = {**common_keys(swept), "grid": json.dumps(
        [grid.vary, grid.points, seeds_of(grid.seeds, swept.keys.get("seed", 0)),
         swept.keys.get("compare", {}).get("baseline")], default=str)}
    return Path("sweeps") / f"{swept.keys.get('name', 'experiment')}-{spec_hash(keys)}"
