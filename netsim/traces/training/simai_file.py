"""Workload files of SimAI: an iteration of one rank of one stage, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from netsim.base.brief import brief
from netsim.base.reading import Line, read_text, split_lines
from netsim.errors import TraceError
from netsim.traces.training.rank_trace import WEEK_S, too_long

#: The policies that are run.
POLICIES = ("HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "MICRO")

_KNOWN = (*POLICIES, "DATA", "MODEL", "HYBRID_DLRM", "HYBRID_DLRM_ENHANCED", "HYBRID_DATA_MODEL",
          "HYBRID_MODEL_DATA", "HYBRID_CUSTOMIZED", "DISTRIBUTED_INFERENCE")

#: What a layer does: its forward pass, the gradients of its inputs, and those of its weights.
COLUMNS = ("forward", "gradient of inputs", "gradient of weights")

_KINDS = {"ALLREDUCE": "all-reduce", "ALLGATHER": "all-gather", "REDUCESCATTER": "reduce-scatter",
          "ALLTOALL": "all-to-all"}
_SUFFIXES = {"_EP": "ep", "_DP_EP": "dp-ep"}

#: Keys of the first line, and their names in `SimaiFile.header`.
_KEYS = {"model_parallel_NPU_group": "tp", "ep": "ep", "pp": "pp", "vpp": "vpp", "ga": "ga",
         "all_gpus": "gpus", "pp_comm": "pp_bytes"}
_LISTS = {"checkpoints": "checkpoints", "checkpoint_initiates": "initiates"}

_WORDS = 12


class SimaiStep(NamedTuple):
    """A computation and the collective after it."""

    compute_ns: int
    kind: str  #: see `netsim.operations.COMMUNICATIONS`; ``""`` for no collective
    group: str  #: ``""``, ``"tp"``, ``"dp"``, ``"ep"`` or ``"dp-ep"``
    nbytes: int  #: the larger one of a rank's two buffers


class SimaiLayer(NamedTuple):
    """A layer."""

    name: str
    steps: tuple[SimaiStep, ...]  #: in the order of `COLUMNS`
    update_ns: int  #: delay of the end of each of its collectives


@dataclass(frozen=True, slots=True)
class SimaiFile:
    """The contents of a workload file of SimAI."""

    path: Path
    policy: str  #: one of `POLICIES`
    layers: tuple[SimaiLayer, ...]
    #: Values of the first line, by their names in `_KEYS`.
    header: dict[str, int] = field(default_factory=dict)
    checkpoints: tuple[int, ...] = ()  #: layers with checkpoints of their inputs
    initiates: tuple[int, ...] = ()  #: layers before whose gradients others are recomputed
    #: Words that are not collectives: number of the layer, column and word.
    unknown: tuple[tuple[int, str, str], ...] = ()
    __repr__ = brief


def read_simai_file(path: str | Path) -> SimaiFile:
    """Read a workload file of SimAI; errors name the line, the layer and the column."""
    return _Reader(Path(path)).file()


class _Word(NamedTuple):
    """A word of the file, and its line."""

    text: str
    line: int


class _Reader:
    """Reads a file word by word."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = split_lines(read_text(path))
        self._unknown: list[tuple[int, str, str]] = []

    def file(self) -> SimaiFile:
        """Read the whole file."""
        first = self._lines[0].split()
        policy = first[0] if first else ""
        if policy not in POLICIES:
            raise self._refuse(1, f"policy {policy!r} is "
                               + ("not supported" if policy in _KNOWN else "unknown")
                               + f"; netsim runs {', '.join(POLICIES)}")
        header, lists = self._header([_Word(each, 1) for each in first[1:]])
        layers = tuple(self._layers())
        for key, numbers in lists.items():
            for number in numbers:
                if number >= len(layers):
                    raise self._refuse(1, f"{key} names layer {number}; there are {len(layers)}")
        return SimaiFile(self._path, policy, layers, header, lists.get("checkpoints", ()),
                         lists.get("checkpoint_initiates", ()), tuple(self._unknown))

    def _refuse(self, line: int, problem: str) -> TraceError:
        return TraceError(problem, self._path, line)

    def _whole(self, word: _Word, what: str, *, least: int = 0) -> int:
        """Parse a word as a whole number; ``25165824.0`` is one."""
        digits, _, rest = word.text.partition(".")
        text = word.text if rest.strip("0") else digits
        return Line(self._path, word.line, [text]).whole(0, what, least)

    def _time(self, word: _Word, what: str) -> int:
        """Parse a word as nanoseconds of at most a week."""
        nanoseconds = self._whole(word, what)
        if nanoseconds > WEEK_S * 10**9:
            raise self._refuse(word.line, too_long(what, nanoseconds / 1e9, "mend the file"))
        return nanoseconds

    def _header(self, words: Sequence[_Word]) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
        """Read the values of known keys of the first line; others are skipped."""
        header: dict[str, int] = {}
        lists: dict[str, tuple[int, ...]] = {}
        at = 0

        def next_of(key: str, *, least: int) -> int:
            nonlocal at
            if at >= len(words):
                raise self._refuse(1, f"{key} has no value")
            at += 1
            return self._whole(words[at - 1], key, least=least)

        while at < len(words):
            key = words[at].text.removesuffix(":")
            at += 1
            if key in _KEYS:
                header[_KEYS[key]] = next_of(key, least=0 if key == "pp_comm" else 1)
            elif key in _LISTS:
                lists[key] = tuple(next_of(key, least=0) for _ in range(next_of(key, least=0)))
        return header, lists

    def _layers(self) -> Iterator[SimaiLayer]:
        words = [_Word(text, number) for number, line in enumerate(self._lines[1:], 2)
                 for text in line.split()]
        if not words:
            raise self._refuse(2, "the number of layers is missing")
        count = self._whole(words[0], "the number of layers", least=1)
        found = (len(words) - 1) // _WORDS
        if found < count or len(words) - 1 != count * _WORDS:
            more = len(words) - 1 - found * _WORDS
            raise self._refuse(words[-1].line, f"{count} layers are announced, and {found} of "
                               f"{_WORDS} words found" + (f", with {more} words left" if more
                                                          else ""))
        for number in range(count):
            begin = 1 + number * _WORDS
            yield self._layer(number, words[begin:begin + _WORDS])

    def _layer(self, number: int, words: Sequence[_Word]) -> SimaiLayer:
        steps = []
        for k, column in enumerate(COLUMNS):
            compute, communication, size = words[2 + 3 * k:5 + 3 * k]
            where = f"layer {number} ({words[0].text}), {column}"
            nanoseconds = self._time(compute, f"{where}: computation")
            kind, group = self._collective(number, column, communication)
            nbytes = self._whole(size, f"{where}: size")
            steps.append(SimaiStep(nanoseconds, kind, group, nbytes if kind else 0))
        update = self._time(words[-1], f"layer {number} ({words[0].text}): update")
        return SimaiLayer(words[0].text, tuple(steps), update)

    def _collective(self, number: int, column: str, word: _Word) -> tuple[str, str]:
        """Parse the kind and the group of a collective; empty for none."""
        if word.text == "NONE":
            return "", ""
        for name, kind in _KINDS.items():
            if word.text == name:
                return kind, "dp" if column == COLUMNS[2] else "tp"
            for suffix, group in _SUFFIXES.items():
                if word.text == name + suffix:
                    return kind, group
        if word.text.startswith(tuple(_KINDS)):
            raise self._refuse(word.line, f"layer {number}, {column}: {word.text!r} is a "
                               f"collective of no group; there are {', '.join(_KINDS)}, alone or "
                               f"with {' or '.join(_SUFFIXES)}")
        self._unknown.append((number, column, word.text))
        return "", ""
