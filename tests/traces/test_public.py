"""Public traces: fetched once, checked, and never half there. The network is a local server."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.server
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from netsim.cli.main import main
from netsim.errors import FetchError, MissingExtraError, OutputError, UnknownNameError
from netsim.traces import FORMATS, PUBLIC_TRACES, PublicTrace, fetch, library, read_workload

pytest.importorskip("pooch")

DATA = b"""job_id,num_gpu,submit_time,iterations,model_name,duration,interval
1,1,0,5,a,2,3
"""


class Server(http.server.ThreadingHTTPServer):
    """Serves what is in `files`, and keeps the paths that were asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {"/60_job.csv": DATA}
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path.startswith("/endless"):
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):  # until the other side has had enough
                while True:
                    self.wfile.write(b"x" * 65536)
            return
        if self.path not in self.server.files:
            self.send_error(404)
            return
        data = self.server.files[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def get(server) -> Callable[..., Path]:
    """Return `fetch` of a table whose one trace is on the local server."""
    trace = PublicTrace("a trace", f"{server.url}/60_job.csv", "not stated",
                        hashlib.sha256(DATA).hexdigest())
    return partial(fetch, traces={"tiresias": trace})


def left(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_each_has_a_reader_a_source_and_a_digest() -> None:
    for name, trace in PUBLIC_TRACES.items():
        assert trace.url.startswith("https://")
        if not trace.files:
            assert name in FORMATS
            assert trace.file.endswith((".txt", ".csv"))
        assert re.fullmatch("[0-9a-f]{64}", trace.sha256)
        assert trace.licence


def test_a_second_fetch_does_no_download(server, get, tmp_path) -> None:
    path = get("tiresias", tmp_path / "a" / "b")
    assert path == tmp_path / "a" / "b" / "60_job.csv"
    assert path.read_bytes() == DATA
    assert len(read_workload(path)) == 1
    assert get("tiresias", tmp_path / "a" / "b") == path
    assert server.asked == ["/60_job.csv"]
    assert left(tmp_path) == [tmp_path / "a", tmp_path / "a" / "b", path]


def test_a_file_that_was_changed_is_fetched_again(server, get, tmp_path, monkeypatch) -> None:
    import pooch

    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path)
    (tmp_path / "60_job.csv").write_bytes(DATA + b"2")
    assert get("tiresias").read_bytes() == DATA
    assert len(server.asked) == 1
    assert len(left(tmp_path)) == 1


def test_in_a_folder_of_ones_own_a_file_that_was_changed_stays(get, tmp_path) -> None:
    (tmp_path / "60_job.csv").write_bytes(DATA + b"2")
    with pytest.raises(OutputError, match=r"60_job\.csv: is another file than the public one"):
        get("tiresias", tmp_path)
    assert (tmp_path / "60_job.csv").read_bytes() == DATA + b"2"


def test_so_does_a_file_of_a_set(get_set, tmp_path) -> None:
    folder = get_set("set", tmp_path / "set")
    (folder / "deep" / "b.txt").write_text("mine")
    (folder / "a.txt").unlink()
    with pytest.raises(OutputError, match=r"b\.txt: is another file than the public one"):
        get_set("set", folder)
    assert (folder / "deep" / "b.txt").read_text() == "mine"
    assert not (folder / "a.txt").exists()


def test_a_path_is_absolute(get, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert get("tiresias", "here") == tmp_path / "here" / "60_job.csv"


def test_the_cache_is_the_users(get, tmp_path, monkeypatch) -> None:
    import pooch

    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    assert get("tiresias") == tmp_path / "netsim" / "60_job.csv"


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_mirror(server, get, tmp_path, slash) -> None:
    server.files = {"/deep/60_job.csv": DATA}
    assert get("tiresias", tmp_path, source=f"{server.url}/deep{slash}").read_bytes() == DATA
    assert server.asked == ["/deep/60_job.csv"]


def test_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown public trace 'tiresia' \(did you mean "
                                               r"'tiresias'\?\); choose from: coflow-benchmark, h"):
        fetch("tiresia")


def test_another_file_than_expected(server, get, tmp_path) -> None:
    """As a cut one is; the earlier file, which was changed, stays as it is."""
    server.files = {"/60_job.csv": DATA[:-1]}
    with pytest.raises(FetchError, match=r"60_job\.csv: is not the expected file: the sh"
                                         r"a256 of the 80 bytes received is [0-9a-f]{64}, not "):
        get("tiresias", tmp_path / "new")
    assert left(tmp_path) == []
    (tmp_path / "60_job.csv").write_text("mine")
    with pytest.raises(FetchError):
        get("tiresias", tmp_path)
    assert (tmp_path / "60_job.csv").read_text() == "mine"


def test_what_the_server_refuses(server, get, tmp_path) -> None:
    server.files = {}
    with pytest.raises(FetchError, match=r"60_job\.csv: cannot be downloaded: the server says 404"):
        get("tiresias", tmp_path / "new")
    assert left(tmp_path) == []


def test_no_network(get, tmp_path) -> None:
    """Nobody listens on port 1; and a URL that is none."""
    with pytest.raises(FetchError, match=r"127\.0\.0\.1:1/60_job\.csv: cannot be downloaded"):
        get("tiresias", tmp_path, source="http://127.0.0.1:1")
    with pytest.raises(FetchError, match=r"downloaded: Invalid URL 'nowhere/60_job\.csv'"):
        get("tiresias", tmp_path, source="nowhere")
    assert left(tmp_path) == []


def test_a_connection_that_breaks(server, get, tmp_path, monkeypatch) -> None:
    def half(self: Handler) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(DATA)

    monkeypatch.setattr(Handler, "do_GET", half)
    with pytest.raises(FetchError, match=r"60_job\.csv: "):
        get("tiresias", tmp_path)
    assert left(tmp_path) == []


def test_a_cache_that_cannot_be_written(get, tmp_path, monkeypatch) -> None:
    """Simulated: whoever runs the tests may have all permissions."""
    def denied(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "replace", denied)
    with pytest.raises(OutputError, match=r"60_job\.csv: cannot be written: Read-only file system"):
        get("tiresias", tmp_path / "a" / "b")
    assert left(tmp_path) == []


def test_a_folder_that_is_none(server, get, tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match=r"file/60_job\.csv: cannot be read: Not a directory"):
        get("tiresias", tmp_path / "file")
    assert server.asked == []
    (tmp_path / "60_job.csv").mkdir()
    with pytest.raises(OutputError, match=r"60_job\.csv: cannot be read: Is a directory"):
        get("tiresias", tmp_path)


def test_without_pooch(get, tmp_path, monkeypatch) -> None:
    """What is there already needs none."""
    get("tiresias", tmp_path)
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert get("tiresias", tmp_path).is_file()
    for folder in (None, tmp_path / "other"):
        with pytest.raises(MissingExtraError, match=r"pip install 'coflow-netsim\[data\]'"):
            get("tiresias", folder)


SET = {"a.txt": b"one", "deep/b.txt": b"two"}
SUMS = "".join(f"{hashlib.sha256(data).hexdigest()}  {file}\n" for file, data in SET.items())


@pytest.fixture
def get_set(server) -> Callable[..., Path]:
    """Return `fetch` of a table whose one set of files is on the local server."""
    server.files = {f"/{file}": data for file, data in SET.items()}
    trace = PublicTrace("a set", server.url, "MIT", hashlib.sha256(SUMS.encode()).hexdigest(),
                        tuple(SET))
    return partial(fetch, traces={"set": trace})


def test_a_set_of_files_is_fetched_once(server, get_set, tmp_path) -> None:
    """Its digest is that of what sha256sum prints."""
    folder = get_set("set", tmp_path / "here")
    assert folder == tmp_path / "here"
    assert {file: (folder / file).read_bytes() for file in SET} == SET
    assert get_set("set", folder) == folder
    assert server.asked == ["/a.txt", "/deep/b.txt"]
    (folder / "a.txt").unlink()
    assert (get_set("set", folder) / "a.txt").read_bytes() == b"one"


def test_a_set_in_the_cache_has_a_folder_of_its_own(get_set, tmp_path, monkeypatch) -> None:
    import pooch

    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    assert get_set("set") == tmp_path / "netsim" / "set"


def test_a_set_of_which_one_file_is_wrong_is_not_written(server, get_set, tmp_path) -> None:
    server.files["/deep/b.txt"] = b"another"
    with pytest.raises(FetchError, match=r"are not the expected files: the sha256 of the digests "
                                         r"of the 2 files received is [0-9a-f]{64}, not "):
        get_set("set", tmp_path / "new")
    del server.files["/deep/b.txt"]
    with pytest.raises(FetchError, match=r"deep/b\.txt: cannot be downloaded: the server says 404"):
        get_set("set", tmp_path / "new")
    assert left(tmp_path) == []


# --- the command ----------------------------------------------------------------------------


def test_list_says_what_there_is() -> None:
    done = CliRunner().invoke(main, ["data", "list"])
    assert (done.exit_code, done.stderr) == (0, "")
    for name, trace in PUBLIC_TRACES.items():
        assert f"{name}  " in done.stdout
        for said in (trace.file, trace.summary, trace.url, trace.licence, trace.sha256):
            assert said in done.stdout


def test_fetch_prints_the_path_that_a_run_takes(server, get, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(library, "fetch", get)
    done = CliRunner().invoke(main, ["data", "fetch", "tiresias", "--to", "data",
                                     "--from", server.url])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / 'data' / '60_job.csv'}\n"
    run = CliRunner().invoke(main, ["run", "demo", "--out", "r", "--set", "workload.name=tiresias",
                                    "--set", f"workload.file={done.stdout.strip()}"])
    assert run.exit_code == 0
    assert "finished   1 of 1 job\n" in run.stdout


@pytest.mark.parametrize(("arguments", "message"), [
    (["tiresia"], "error: unknown public trace 'tiresia'"),
    (["tiresias"], "is not the expected file"),
    (["coflow-benchmark"], "cannot be downloaded: the server says 404"),
])
def test_fetch_refuses(server, tmp_path, arguments, message) -> None:
    """Of the server nothing is right: its trace has another digest."""
    done = CliRunner().invoke(main, ["data", "fetch", *arguments, "--to", str(tmp_path / "data"),
                                     "--from", server.url])
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert left(tmp_path) == []


def test_a_download_that_never_ends_has_a_limit(get, server, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(library, "_MOST_BYTES", 10**6)
    with pytest.raises(FetchError, match=r"/endless/60_job\.csv: cannot be downloaded: received "
                                         "more than 1,000,000 bytes"):
        get("tiresias", tmp_path, source=f"{server.url}/endless")
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_takes_too_long_is_given_up(get, server, tmp_path, monkeypatch) -> None:
    """Here any time is too long."""
    monkeypatch.setattr(library, "_LONGEST_S", -1.0)
    with pytest.raises(FetchError, match=r"cannot be downloaded: it took more than -1 s"):
        get("tiresias", tmp_path, source=f"{server.url}/endless")
    assert list(tmp_path.iterdir()) == []
