"""Programs of MSCCL: what they wait for, what they take, and what is refused."""

import warnings

import networkx as nx
import numpy as np
import pytest
from click.testing import CliRunner

import netsim
from netsim.cli.main import main
from netsim.collectives import read_msccl, schedule
from netsim.errors import InputError, NetsimWarning, TraceError, UnknownNameError
from netsim.jobs.patterns import make_pattern


def step(number, kind, src="i0", dst="i0", cnt=1, after=(-1, -1)):
    return (f'<step s="{number}" type="{kind}" srcbuf="{src[0]}" srcoff="{src[1:]}" '
            f'dstbuf="{dst[0]}" dstoff="{dst[1:]}" cnt="{cnt}" depid="{after[0]}" '
            f'deps="{after[1]}" hasdep="0"/>')


def block(number, send, recv, *steps, chan=0):
    return (f'<tb id="{number}" send="{send}" recv="{recv}" chan="{chan}">\n'
            + "\n".join(steps) + "\n</tb>")


def program(coll, chunks, *gpus, in_place=0, chunk_counts='i_chunks="0" o_chunks="0"', more=""):
    listed = "\n".join(f'<gpu id="{k}" {chunk_counts} s_chunks="2">\n' + "\n".join(blocks)
                       + "\n</gpu>" for k, blocks in enumerate(gpus))
    return (f'<algo name="mine" proto="Simple" nchannels="1" nchunksperloop="{chunks}" '
            f'ngpus="{len(gpus)}" coll="{coll}" inplace="{in_place}" {more}>\n{listed}\n</algo>\n')


@pytest.fixture
def written(tmp_path):
    def write(text, name="mine.xml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)
    return write


def chain_of(n):
    """Return an all-gather along a line and back: rank 0 sends on and on, n - 1 sends back."""
    gpus = []
    for k in range(n):
        right, left = ([] for _ in range(2))
        for chunk in range(k + 1):  # to the right: 0..k, as they come
            if k and chunk < k:
                kind = "rcs" if k < n - 1 else "r"
                right.append((kind, f"o{chunk}"))
            elif k < n - 1:
                right.append(("s", f"o{k}"))
        for chunk in range(n - 1, k - 1, -1):
            if k < n - 1 and chunk > k:
                left.append(("rcs" if k else "r", f"o{chunk}"))
            elif k:
                left.append(("s", f"o{k}"))
        gpus.append([
            block(0, k + 1 if k < n - 1 else -1, k - 1,
                  *(step(i, kind, at, at) for i, (kind, at) in enumerate(right))),
            block(1, k - 1, k + 1 if k < n - 1 else -1,
                  *(step(i, kind, at, at) for i, (kind, at) in enumerate(left)), chan=1)])
    return program("allgather", n, *gpus, in_place=1)


RING = program("allreduce", 2, *(
    [block(0, 1 - k, 1 - k, step(0, "s", f"i{k}"), step(1, "rrc", f"i{1 - k}", f"i{1 - k}"),
           step(2, "s", f"i{1 - k}"), step(3, "r", dst=f"i{k}"))] for k in range(2)), in_place=1)

#: Both ranks get the scratch of the other, and add and copy, in another thread block.
BY_SCRATCH = program("allreduce", 1, *(
    [block(0, 1 - k, 1 - k, step(0, "s"), step(1, "r", dst="s0")),
     block(1, -1, -1, step(0, "nop", after=(0, 0)), step(1, "cpy", "i0", "o0"),
           step(2, "re", "s0", "o0", after=(0, 1)))] for k in range(2)))


def test_a_ring_is_the_ring(written):
    """Of two ranks: the messages, their bytes and waits are those of netsim's own ring."""
    own, made = schedule("all-reduce", 2, "ring"), read_msccl(written(RING))
    assert (made.ranks, made.steps, made.messages_sent) == (2, own.steps, own.messages_sent)
    one, other = (each.messages(each.sizes(1000.0)) for each in (own, made))
    for name in ("step", "src", "dst", "nbytes", "adds"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert made.after == ((), (), (0, 1), (0, 1))


def test_steps_of_other_blocks_are_waited_for(written):
    made = read_msccl(written(BY_SCRATCH))
    assert made.messages_sent == 2
    assert made.after == ((), ())
    with pytest.raises(TraceError, match=r"mine.xml:\d+: gpu 1 tb 1 step 2: reads s\[0\]"):
        read_msccl(written(BY_SCRATCH.replace('depid="0" deps="1"', 'depid="-1" deps="-1"')))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_line_is_as_long_as_its_longest_chain(written, n):
    """Rank k sends to the right 0, 1, .., k, each in T = S/(n B) once it has come.

    Message j of rank k leaves when that of rank k - 1 has come, unless it is rank k's own, j = k,
    and when its message j - 1 has been sent: b(k, j) = 1 + max(b(k - 1, j), b(k, j - 1)), and
    b(0, 0) = 0, in units of T. It is the same to the left, over other links.
    """
    path = written(chain_of(n))
    assert read_msccl(path).messages_sent == n * (n - 1)
    line = netsim.from_networkx(nx.path_graph(n), hosts=range(n), capacity="1kB/s")
    times = {}
    for form in ("messages", "steps"):
        job = netsim.JobSpec(0, ranks=n, nbytes=n * 1000, hosts=range(n), pattern={
            "name": "all-gather", "algorithm": path, "form": form})
        done = netsim.simulate(line, [job], allocator="maxmin")
        times[form] = done.jobs["jct_s"].iloc[0]
    begin = {}
    for k in range(n - 1):
        for j in range(k + 1):
            begin[k, j] = max(begin.get((k - 1, j), -1), begin.get((k, j - 1), -1)) + 1
    assert times == {"messages": max(begin.values()) + 1, "steps": max(begin.values()) + 1}


def test_chunks_are_padded_and_sizes_questioned(written):
    made = read_msccl(written(RING.replace("inplace", 'minBytes="10" maxBytes="100" inplace')))
    with pytest.warns(NetsimWarning, match="meant for sizes from 10 up to 100 bytes, not 101"):
        assert made.sizes(101).nbytes == 102
    with warnings.catch_warnings():  # both ends are sizes that it is meant for
        warnings.simplefilter("error")
        assert [made.sizes(size).nbytes for size in (10, 100)] == [10, 100]
    assert made.sizes(50, 4.0).nbytes == 56
    with pytest.raises(InputError, match="unit"):
        made.sizes(50, 0.0)


def test_a_largest_size_of_0_is_no_limit(written):
    made = read_msccl(written(RING.replace("inplace", 'minBytes="10" maxBytes="0" inplace')))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert made.sizes(2.0**40).nbytes == 2**40
    with pytest.warns(NetsimWarning, match="meant for sizes from 10 bytes on, not 8"):
        made.sizes(8)


def test_in_patterns_and_on_the_command_line(written):
    path = written(RING)
    pattern = make_pattern({"name": "all-reduce", "algorithm": path})
    assert not pattern.scale_free
    table = netsim.collective_times("all-reduce", netsim.big_switch(2, "8Gbps"), 2, "1MB",
                                    algorithm=path)
    assert table["time_s"].iloc[0] == pytest.approx(1e-3, rel=1e-9)  # 2 S/(2 B)
    done = CliRunner().invoke(main, ["collective", "all-reduce", "--on", "big-switch-128-10g",
                                     "--ranks", "2", "--bytes", "1MB", "--algorithm", path])
    assert done.exit_code == 0
    assert "0.8 ms" in done.output or "800 us" in done.output
    for collective, said in (("all-gather", "is a program for all-reduce, not for all-gather"),):
        with pytest.raises(TraceError, match=said):
            make_pattern({"name": collective, "algorithm": path})
    with pytest.raises(InputError, match="takes no chunks"):
        make_pattern({"name": "all-reduce", "algorithm": path, "chunks": 2})
    with pytest.raises(InputError, match="is for 2 ranks, not 3"):
        schedule("all-reduce", 3, path)
    with pytest.raises(TraceError, match=r"nowhere\.xml: no such file"):
        make_pattern({"name": "all-reduce", "algorithm": "nowhere.xml"})
    with pytest.raises(UnknownNameError):
        make_pattern({"name": "all-reduce", "algorithm": "nowhere"})
    assert schedule("all-reduce", 2, path, order=[1, 0]).at(np.array([0])).tolist() == [1]


def exchange(**changes):
    given = {"kind": "r", "dst": "o0", "cnt": 1, "recv": 1} | changes
    return program("alltoall", 2, *(
        [block(0, 1 - k, -1, step(0, "s", f"i{1 - k}")),
         block(1, -1, 1 - k if given["recv"] == 1 else given["recv"],
               step(0, given["kind"], dst=f"o{1 - k}" if given["dst"] == "o0" else given["dst"],
                    cnt=given["cnt"])),
         block(2, -1, -1, step(0, "cpy", f"i{k}", f"o{k}"))] for k in range(2)))


def test_an_exchange(written):
    made = read_msccl(written(exchange()))
    assert made.collective == "all-to-all"
    assert made.messages_sent == 2
    with pytest.raises(InputError, match="takes no matrix"):
        netsim.simulate(netsim.big_switch(2), [netsim.JobSpec(0, ranks=2, pattern={
            "name": "all-to-all", "algorithm": written(exchange()),
            "matrix": [[0, 1], [1, 0]]})])


def test_a_reduce_scatter(written):
    """Each sends the other's half, which that adds to its own."""
    text = program("reduce_scatter", 2, *(
        [block(0, 1 - k, 1 - k, step(0, "s", f"i{1 - k}"), step(1, "rrc", f"i{k}", "o0"))]
        for k in range(2)))
    assert read_msccl(written(text)).collective == "reduce-scatter"
    with pytest.raises(TraceError, match="wrong result: gpu 0 chunk 0 has chunk 0 of gpu 1, not"):
        read_msccl(written(text.replace("rrc", "r")))
    assert read_msccl(written(text.replace("rrc", "r")), verify=False).steps == 1


@pytest.mark.parametrize(("text", "said"), [
    (exchange(recv=-1), "gpu 0 tb 1 step 0: type r needs a peer, but recv is -1"),
    (exchange(recv=0), "gpu 0 tb 1: recv 0 must be another GPU"),
    (exchange(recv=7), "gpu 0 tb 1: recv 7 must be another GPU, 0 to 1"),
    (exchange(cnt=2, dst="s0"), "receives 2 chunks, but gpu . tb 0 step 0 sends 1"),
    (exchange(dst="o2"), r"writes 1 chunks from o\[2\], but the buffer has 2"),
    (exchange(dst="s1", cnt=2), r"writes 2 chunks from s\[1\], but the buffer has 2"),
    (exchange(kind="nop"), "gpu 0 tb 0 step 0: a send that nobody receives"),
    (exchange(kind="s", recv=1), "type s needs a peer, but send is -1"),
    (exchange(dst="s0"), "wrong result: gpu 0 chunk 1 has nothing"),
    (exchange().replace('depid="-1"', 'depid="5"').replace('deps="-1"', 'deps="0"'),
     "waits for tb 5 step 0, which is not there"),
    (exchange().replace('<tb id="1"', '<tb id="0"', 1), "gpu 0: tb 0 is there twice"),
    (exchange().replace('<gpu id="1"', '<gpu id="2"'), "gpu 1 is missing"),
    (exchange().replace('<gpu id="1"', '<gpu id="0"'), "gpu 0 is there twice"),
    (exchange().replace('i_chunks="0"', 'i_chunks="3"', 1), "i_chunks 3 must be nchunksperloop, 2"),
    (exchange().replace('nchunksperloop="2"', 'nchunksperloop="3"'), "must be a multiple of ngpus"),
    (exchange().replace("alltoall", "broadcast"), "unknown collective 'broadcast'"),
    (exchange().replace('srcbuf="i"', 'srcbuf="x"', 1), "unknown buffer 'x'"),
    (exchange().replace('cnt="1"', 'cnt="0"', 1), "cnt must be a whole number of at least 1"),
    (exchange().replace(' cnt="1"', "", 1), "<step> has no attribute 'cnt'"),
    (exchange().replace("</algo>", ""), "is not XML"),
    ("<!DOCTYPE algo [<!ENTITY a 'b'>]>" + exchange(), "entities, which are refused"),
    (program("allreduce", 1, [block(0, 1, -1, step(0, "s")), block(1, 1, -1, step(0, "s"))],
             [block(0, -1, 0, step(0, "r"), step(1, "r"))]),
     "gpu 0 tb 1 step 0: tb 0 uses the channel 0 between gpu 0 and gpu 1, too"),
    (program("allreduce", 1, [block(0, -1, -1, step(0, "nop", after=(0, 0)))]),
     "gpu 0 tb 0 step 0: deadlock: waits for itself"),
    (program("allgather", 2, *([block(0, 1 - k, 1 - k, step(0, "r", "o0"), step(1, "s", "i0"))]
                               for k in range(2))),
     "gpu 0 tb 0 step 0: deadlock: waits for gpu 1 tb 0 step 1, which waits for gpu 1 tb 0 step 0, "
     "which waits for gpu 0 tb 0 step 1, which waits for it"),
])
def test_bad_programs(written, text, said):
    path = written(text)
    with pytest.raises(TraceError, match=said) as caught:
        read_msccl(path)
    assert str(caught.value).startswith(path)
