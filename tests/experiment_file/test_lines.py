"""The lines of keys, against `tomllib`, which reads the same keys without their lines."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.experiment_file.lines import line_of, lines_of_keys

FILE = '''# seed = 7
seed = 1

[network]   # allocator.name = "x"
kind = "ring" # hosts = 4
name = """
[compare]
seed = 3 \\""" # ]
"""

[workload]
pattern.name = "all-to-all"
"pattern".sizes = 'split # "'

[[events]]
at = 1
[[ events ]]
at = 2
where."a.b]=" = { host = 3, factors = [
    1, # ]
    { low = [2, 3], high = "]," }] }

[compare]
allocators = [
    "aalo:queues=0",
    { name = "sebf",
      key = "original" }]
'''


@pytest.mark.parametrize(("problem", "line"), [
    ("seed: must be a number", 2), ("network: is wrong", 4), ("network.kind: is wrong", 5),
    ("network.name: is wrong", 6), ("network.hosts: is required", 4), ("workload: x", 11),
    ("workload.pattern: y", 12), ("workload.pattern.sizes: no", 13), ("events: none", 15),
    ("events.0.at: x", 16), ("events.1: x", 17), ("events.1.link: is required", 17),
    ("events.1.where.a.b]=.host: x", 19), ("events.1.where.a.b]=.factors.1.low.1: x", 21),
    ("compare.allocators: x", 24), ("compare.allocators.0.queues: must be", 25),
    ("compare.allocators.1.key: x", 27), ("allocator: x", None), ("observe: seed: x", None),
    ("is not TOML", None)])
def test_a_problem_has_the_line_of_its_key_or_of_the_table_around_it(problem, line):
    assert line_of(problem, lines_of_keys(FILE)) == line


def test_a_table_has_the_line_of_its_own_header():
    """Also where a table below it comes first, or keys of it with dots before and after."""
    lines = lines_of_keys("[a.b]\nx = 1\n\n[a]\nc.d = 1\nc.e = 2\r\n[[f.g]]\n[[f.g]]\n[f.g.h]\n")
    assert lines == {"a": 4, "a.b": 1, "a.b.x": 2, "a.c": 5, "a.c.d": 5, "a.c.e": 6, "f": 7,
                     "f.g": 7, "f.g.0": 7, "f.g.1": 8, "f.g.1.h": 9}


def test_lists_in_lists_in_lists():
    """As deep as `tomllib` reads them: without lines, if the stack does not suffice for both."""
    for depth in (3, 100, 400):
        text = f"a = {'[' * depth}{']' * depth}"
        tomllib.loads(text)
        assert lines_of_keys(text) in ({}, {"a" + ".0" * k: 1 for k in range(depth)})


# --- any document ----------------------------------------------------------------------------

#: Parts of keys; those with other signs stand in quotes.
PARTS = st.sampled_from(["a", "b-c", "3", "x.y", "]", "# no", "=", "'", '"', "é", "\t", ""])
BLANK = st.sampled_from(["", " ", "\t"])
GAP = st.sampled_from(["", " ", "\n", "\r\n", " # ] } \"\"\" = '\n", "#\n\n \t"])
ENDS = st.sampled_from(["\n", "\r\n", " # x = [\n", "\n\n", "#'''\n  "])
STRINGS = st.sampled_from([
    '"{}"', "'{}'", '"""{}"""', "'''{}'''", '"{} # ]"', "'{}\\'", '"{}\\""', '"\\\\{}"',
    '"""{}\n[a]\nb = "3"\n"""""', "'''{}\n]]'\n'''''", '"""{}\\\n  \\""" """'])
PLAIN = st.sampled_from(["0x{}", "-{}", "1979-05-27 07:32:00.{}", "1.{}", "true", "+inf"])


@st.composite
def documents(draw):
    """A document, in which each string or number holds a number of its own, where it begins.

    Keys that occur twice make some documents invalid, from which only the shorter beginnings count.
    """
    numbers = iter(range(10_000, 99_999))

    def key(parts):
        written = [part if part.replace("-", "").isascii() and part.replace("-", "").isalnum()
                   else json.dumps(part, ensure_ascii=False) if "'" in part or draw(st.booleans())
                   or "\t" in part else f"'{part}'" for part in parts]
        return f"{draw(BLANK)}.{draw(BLANK)}".join(written)

    def scalar():
        return draw(STRINGS | PLAIN).format(next(numbers))

    def value(depth):
        kind = draw(st.integers(0, 5)) if depth else 2
        if kind == 0:
            entries = [draw(GAP) + value(depth - 1) + draw(GAP)
                       for _ in range(draw(st.integers(0, 3)))]
            last = "," if entries and draw(st.booleans()) else ""
            return f"[{','.join(entries)}{last}{draw(GAP)}]"
        if kind == 1:
            names = draw(st.lists(PARTS, unique=True, max_size=3))
            pairs = [f"{draw(BLANK)}{key([name])}{draw(BLANK)}={draw(BLANK)}{value(depth - 1)}"
                     for name in names]
            return "{" + ",".join(pairs) + draw(BLANK) + "}"
        return scalar()

    text = draw(GAP)
    for _ in range(draw(st.integers(0, 6))):
        parts = draw(st.lists(PARTS, min_size=1, max_size=3))
        kind = draw(st.integers(0, 5))
        more = (f"[{draw(BLANK)}{key(parts)}{draw(BLANK)}]" if kind == 0 else
                f"[[{draw(BLANK)}{key(parts)}{draw(BLANK)}]]" if kind == 1 else
                f"{draw(BLANK)}{key(parts)}{draw(BLANK)}={draw(BLANK)}{value(2)}") + draw(ENDS)
        try:
            tomllib.loads(text + more)
        except tomllib.TOMLDecodeError:
            continue
        text += more
    return text


def flat(tree, path=()):
    """The paths below a table or a list, with their values."""
    pairs = tree.items() if isinstance(tree, dict) else (
        enumerate(tree) if isinstance(tree, list) else ())
    for key, value in pairs:
        below = (*path, str(key))
        yield ".".join(below), value
        yield from flat(value, below)


@given(documents())
def test_every_key_of_a_document_has_a_line_and_there_are_no_others(text):
    lines, known = lines_of_keys(text), dict(flat(tomllib.loads(text)))
    assert lines.keys() == {key.replace("\t", "\\t") for key in known}


@given(documents())
def test_the_number_in_a_value_stands_on_the_line_of_its_key(text):
    """Paths that join to the same text, as of ``"x.y"`` and ``x.y``, are left out."""
    found = list(flat(tomllib.loads(text)))
    paths = [key for key, _ in found]
    written, lines = text.split("\n"), lines_of_keys(text)
    for key, value in found:
        number = next((number for number in range(10_000, 10_100) if str(number) in str(value)),
                      None)
        if paths.count(key) == 1 and number is not None and not isinstance(value, dict | list):
            assert str(number) in written[lines[key.replace("\t", "\\t")] - 1]
