"""Compiled kernels are cached on disk, in a folder of this version of all of them."""

import ast
import errno
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import numba
import numpy as np
import pytest

import netsim
from netsim.base import compiling as compiling_module
from netsim.base.compiling import compiled, compiling, row_type, tell_not_kept
from netsim.base.files import COMPILED, cache_folder
from tests.offenders import assert_none
from tests.pairs import exhaustive

PACKAGE = Path(netsim.__file__).parent

#: What modules of kernels import for type checkers, for what they raise, and to be found.
NOT_COMPILED = {"Bools", "Floats", "InputError", "Ints", "Operations", "loading"}

RUN = """
import numba, numpy as np
from netsim.schedulers.kernels import before
_, count = before(*map(np.array, ([0], [1.001], [0.0], [0], [8])), 0, 1.0, 0.0, 1)
print(before.stats.cache_path)
print(numba.config.CACHE_DIR or "unset")
print(count, before.stats.cache_hits.total())
"""


def compiled_in(package, **environment):
    """Count the jobs before another: the folder, what is set, and the count with cache hits."""
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True,
                          cwd=package, env={**os.environ, **environment})
    path, left, result = done.stdout.splitlines()
    return Path(path), left, result


def test_an_edit_of_a_callee_compiles_and_one_elsewhere_does_not(tmp_path):
    """1.001 comes after 1, but if `EQUAL` of another file is a tenth they tie, and ids decide."""
    shutil.copytree(PACKAGE, tmp_path / "netsim", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    before, left, result = compiled_in(tmp_path, **environment)
    assert before.is_relative_to(tmp_path / "netsim")
    assert (left, result) == ("unset", "0 0")
    other = tmp_path / "netsim" / "fabric" / "view.py"
    other.write_text(other.read_text() + "\n# another version\n")
    assert compiled_in(tmp_path, **environment) == (before, "unset", "0 1")
    callee = tmp_path / "netsim" / "ties.py"
    callee.write_text(callee.read_text().replace("EQUAL = 1e-9", "EQUAL = 0.1"))
    after, _, result = compiled_in(tmp_path, **environment)
    assert after != before
    assert result == "1 0"


def keyed():
    """The files on whose contents the name of the folder depends."""
    return {path for pattern in COMPILED for path in PACKAGE.glob(pattern)}


def test_all_that_is_compiled_is_in_the_key_and_what_it_imports():
    """But rules of policies: `fabric/rule_code.py` makes their key."""
    holding = {path for path in PACKAGE.rglob("*.py") if path.parent.name != "allocators"
               and re.search(r"^@(kernels\.)?(compiled|in_place|inlined|anywhere)\b",
                             path.read_text(), re.MULTILINE)}
    assert len(holding) > 20
    needed, waiting = set(), [*holding]
    while waiting:
        if (path := waiting.pop()) not in needed:
            needed.add(path)
            if path.parent.name != "base":  # what compiles takes nothing over from its imports
                waiting += imported_by(path)
    assert_none(sorted(needed - keyed()))


def imported_by(path):
    """Yield the files of netsim that a file imports, but for types and for what comes later."""
    for node in ast.parse(path.read_text()).body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names
                     if alias.name not in NOT_COMPILED]
        for name in names:
            *parts, last = name.split(".")
            for module in (PACKAGE.parent.joinpath(*parts, last), PACKAGE.parent.joinpath(*parts)):
                found = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
                if found.is_file() and found != PACKAGE / "__init__.py":
                    yield found
                    break


def test_the_users_folder_is_respected(tmp_path):
    path, left, _ = compiled_in(tmp_path, NUMBA_CACHE_DIR=str(tmp_path),
                                PYTHONPATH=str(PACKAGE.parent))
    assert path.is_relative_to(tmp_path)
    assert left == str(tmp_path)


def twice(x):
    return 2 * x


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Return the folder in which kernels of a test are kept, after `twice` has been compiled."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    tell_not_kept.cache_clear()
    assert compiled(twice)(3) == 6
    assert compiled_from_cache() == (6, 1)
    yield tmp_path / "kept"
    tell_not_kept.cache_clear()


def compiled_from_cache():
    """Call `twice` as a new process would; return its result, and how often it was in the cache."""
    kernel = compiled(twice)
    return kernel(3), kernel.stats.cache_hits.total()


def emptied(_):
    return b""


def cut(data):
    return data[:len(data) // 2]


def with_a_wrong_bit(data):
    """A file that can still be unpickled, in all likelihood; the machine code is wrong then."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:]


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", [emptied, cut, with_a_wrong_bit])
def test_damaged_files_are_made_again(kept, ending, damage):
    [path] = kept.rglob(f"*{ending}")
    path.write_bytes(damage(path.read_bytes()))
    assert compiled_from_cache() == (6, 0)
    assert compiled_from_cache() == (6, 1)


def test_damaged_files_of_what_kernels_call_are_made_again(tmp_path):
    """A kernel that is compiled for Python, too, is loaded as part of another."""
    (tmp_path / "mine.py").write_text(
        "from netsim.base.compiling import anywhere, compiled\n"
        "@anywhere\ndef twice(x): return 2 * x\n"
        "@compiled\ndef four_times(x): return twice(twice(x))\n")
    (tmp_path / "script.py").write_text(
        "from mine import four_times, twice\n"
        "print(twice(1), four_times(1), twice.stats.cache_hits.total())\n")
    (tmp_path / "other.py").write_text(
        "from mine import four_times, twice\n"
        "print(four_times(1), twice.stats.cache_hits.total(), twice(1))\n")
    assert printed_by("script.py", tmp_path) == "2 4 0"
    for path in tmp_path.rglob("*four_times*"):
        path.unlink()
    assert printed_by("other.py", tmp_path) == "4 1 2"
    for path in tmp_path.rglob("*four_times*"):
        path.unlink()
    [path] = tmp_path.rglob("*twice*.nbc")
    path.write_bytes(cut(path.read_bytes()))
    assert printed_by("other.py", tmp_path) == "4 0 2"


def test_files_without_a_digest_are_made_again(kept):
    """As after a process that was killed before it had written that."""
    for path in kept.rglob("*.sha256"):
        path.unlink()
    assert compiled_from_cache() == (6, 0)
    assert compiled_from_cache() == (6, 1)


@pytest.mark.parametrize("module", ["mine", "__main__"])
@pytest.mark.parametrize("values", [("1, 1.5", "1, 1.5", "1, 1.5"), ("1", "1, 1.5", "1, 1.5"),
                                    ("1", "1.5", "1, 1.5")])
def test_code_for_other_types_is_kept_too(tmp_path, module, values):
    """It may be compiled after the first call, or by a later process, and is sealed at the end."""
    kernel = "from netsim.base.compiling import compiled\n@compiled\ndef twice(x): return 2 * x\n"
    calls = ("import sys\nfor x in sys.argv[1].split(','):\n    twice(eval(x))\n"
             "print(twice.stats.cache_hits.total(), twice.stats.cache_misses.total())\n")
    if module == "mine":
        (tmp_path / "mine.py").write_text(kernel)
        kernel = "from mine import twice\n"
    (tmp_path / "script.py").write_text(kernel + calls)
    said = [printed_by("script.py", tmp_path, each) for each in values]
    assert said[-1] == "2 0"
    assert len([*tmp_path.rglob("*.nb?")]) == len([*tmp_path.rglob("*.sha256")]) == 3


def printed_by(script, folder, *words):
    environment = {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, script, *words], cwd=folder, capture_output=True,
                          text=True, check=True, env={**os.environ, **environment})
    return done.stdout.strip()


def test_a_digest_is_written_whole_or_not_at_all(kept, tmp_path):
    """What a copy of the folder shares with it by a hard link is left as it is."""
    [seal] = kept.rglob("*.nbi.sha256")
    os.link(seal, tmp_path / "copy")
    compiling_module.seal(twice)
    assert not seal.samefile(tmp_path / "copy")
    assert seal.read_bytes() == (tmp_path / "copy").read_bytes()


def test_what_another_process_has_removed_is_no_obstacle(kept, monkeypatch):
    """Of damaged files, the others are removed, too."""
    files = [kept / "gone.nbi", *kept.rglob("*.nb?")]
    files[1].write_bytes(b"")
    monkeypatch.setattr(compiling_module, "_files_of", lambda _: files)
    assert not compiling_module._is_stored(twice)
    assert not any(path.exists() for path in files)


def test_a_folder_in_place_of_a_file_is_named(kept):
    for path in [*kept.rglob("*.nbi")]:
        path.unlink()
        path.mkdir()
    with pytest.warns(netsim.NetsimWarning) as told:
        assert compiled_from_cache() == (6, 0)
    message = str(told.pop().message)
    assert not told.list
    assert re.search(rf"cannot be stored in {kept}\S+\.nbi: .*directory", message)


def test_a_file_in_place_of_the_folder_is_named(kept):
    """Numba itself would then keep kernels beside their sources, and miss changes of callees."""
    shutil.rmtree(kept)
    kept.touch()
    with pytest.warns(netsim.NetsimWarning, match=f"cannot be stored in {kept}"):
        assert compiled_from_cache() == (6, 0)
    assert compiled_from_cache() == (6, 0)


@pytest.mark.usefixtures("nothing_kept")
def test_an_error_without_a_file_names_the_folder():
    """As of a full disk."""
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    kernel = compiled(twice)
    kernel.dispatcher = full
    tell_not_kept.cache_clear()
    with pytest.warns(netsim.NetsimWarning, match=re.escape(f"stored in {cache_folder()}: No sp")):
        assert kernel(3) == 6
    tell_not_kept.cache_clear()


@exhaustive
def test_a_kernel_that_makes_arrays_is_cached_with_those_that_call_it(tmp_path):
    """What Python needs to know about the array is not lost if its caller is loaded."""
    (tmp_path / "first.py").write_text(
        "import numpy as np\nfrom netsim.base.compiling import compiled\n\n"
        "@compiled\ndef pair(x):\n    return np.full(2, x)\n\n"
        "@compiled\ndef total(x):\n    return pair(x).sum()\n\n"
        "print(pair(1.0), total(2.0), pair(3.0), pair.stats.cache_hits.total())\n")
    for hits in (0, 1, 0):
        assert printed_by("first.py", tmp_path) == f"[1. 1.] 4.0 [3. 3.] {hits}"
        for path in tmp_path.rglob("first.*.nb?") if hits else ():
            path.unlink()


@pytest.fixture
def nothing_kept(tmp_path, monkeypatch):
    """Let nothing be compiled that an earlier run of the tests has kept."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize("before", [(600, 5, 7), (0, 5, 7)])
def test_garbage_is_looked_for_rarely_while_kernels_are_compiled(before):
    """Not at all where the user has said so."""
    held = gc.get_threshold()
    try:
        gc.set_threshold(*before)
        with compiling(twice):
            assert gc.get_threshold() == ((1_000_000, 20, 100) if before[0] else before)
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*held)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("fails", [False, True])
def test_a_handler_of_ones_own_during_compiling(number, fails):
    """It is called once the compiler is done, also if that failed, and is in its place again."""
    called = []

    def handler(given, frame):
        called.append((given, frame.f_lineno > 0))

    before = signal.signal(number, handler)
    try:
        with pytest.raises(ValueError, match="no code") if fails else nullcontext(), \
                compiling(twice):
            signal.raise_signal(number)
            assert not called
            if fails:
                raise ValueError("no code")
        assert called == [(number, True)]
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("late", [False, True])
def test_a_signal_while_handlers_are_replaced(late, monkeypatch):
    """What its handler raises leaves no signal unheard."""
    calls, real = [], signal.signal

    def interrupt(*_):
        raise KeyboardInterrupt

    def at_a_bad_time(number, handler):
        calls.append(number)
        if len(calls) == (4 if late else 2):  # the second to be put back, or to be replaced
            signal.raise_signal(calls[2] if late else number)
        return real(number, handler)

    before = {number: real(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        monkeypatch.setattr(signal, "signal", at_a_bad_time)
        with pytest.raises(KeyboardInterrupt), compiling(twice):
            pass
        for number in before:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
    finally:
        for number, handler in before.items():
            real(number, handler)


def test_two_threads_compile_at_once():
    """The first to begin ends first."""
    before = gc.get_threshold(), numba.config.OPT, numba.config.CACHE_DIR
    turns = [threading.Event() for _ in range(3)]

    def first():
        with compiling(twice):
            turns[0].set()
            turns[1].wait(1.0)

    def second():
        turns[0].wait()
        with compiling(twice):
            turns[1].set()
            turns[2].wait(1.0)

    threads = [threading.Thread(target=each) for each in (first, second)]
    for each in threads:
        each.start()
    threads[0].join()
    turns[2].set()
    threads[1].join()
    assert (gc.get_threshold(), numba.config.OPT, numba.config.CACHE_DIR) == before


def test_numbas_file_may_say_that_nothing_is_compiled(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / ".numba_config.yaml").write_text("disable_jit: 1\n")
    (tmp_path / "script.py").write_text(
        "from netsim.base.compiling import compiled\n"
        "kernel = compiled(lambda value: value)\n"
        "print(kernel(1), 'dispatcher' in vars(kernel))")
    assert printed_by("script.py", tmp_path) == "1 False"


# --- rows ------------------------------------------------------------------------------

ROW = row_type([("size", "f8"), ("base", "i8"), ("kind", "i4")])


@compiled
def added(rows):
    for row in rows:
        row.size += row.base
    return rows[1].size


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize("call", [added, added.py_func])
def test_rows_are_read_and_written_by_name_compiled_or_not(call):
    """Also where NumPy has an attribute of that name."""
    rows = np.array([(1.5, 2, 0), (3.5, 4, 0)], ROW)
    assert call(rows) == 7.5
    assert rows["size"].tolist() == [3.5, 7.5]
