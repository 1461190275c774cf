"""Tables that name no format: the error says what they look like, and the call that reads them."""

import pickle
import re
import shlex

import pandas as pd
import pytest
from click.testing import CliRunner

import netsim
from netsim.cli.main import main
from netsim.cluster.contention import Contention
from netsim.errors import InputError, TraceError
from netsim.schedulers.registry import SCHEDULERS
from netsim.traces.files import UnknownTableError

#: A header of flows, two rows, and the options that read them.
FLOWS = {
    "source,destination,bytes": {"src": "source", "dst": "destination"},
    "From;To;Size": {"src": "From", "dst": "To", "nbytes": "Size"},
    "src_host\tdst_host\tnbytes": {"src": "src_host", "dst": "dst_host"},
    "src,dest,bytes": {"dst": "dest"},
    "sender,receiver,flow size": {"src": "sender", "dst": "receiver", "nbytes": "flow size"},
    "Source,Target,1": {"src": "Source", "dst": "Target", "nbytes": "COLUMN"},
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Write a table of the two flows 0 -> 1 and 1 -> 2, and go to its folder."""
    monkeypatch.chdir(tmp_path)

    def write(header, name="mine.csv", rows=("0,1,1e6", "1,2,2e6")):
        separator = next((each for each in ",;\t" if each in header), ",")
        lines = [header, *(row.replace(",", separator) for row in rows)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return name
    return write


def call_in(error):
    """Return the call that a message gives."""
    return re.search(r"read it with (netsim\.read_workload\(.*?\)), on the", str(error)).group(1)


@pytest.mark.parametrize(("header", "options"), FLOWS.items(), ids=range(len(FLOWS)))
def test_the_call_in_the_error_reads_the_flows(here, header, options):
    name = here(header)
    with pytest.raises(UnknownTableError, match=r"^mine\.csv: looks like a table of f") as found:
        netsim.read_workload(name)
    call = call_in(found.value)
    given = ", ".join(f"{option}={column!r}" for option, column in options.items())
    assert call == f"netsim.read_workload('mine.csv', format='flows', {given})"
    workload = eval(call.replace("COLUMN", "1"))
    assert [job.stages[0].flows.nbytes.tolist() for job in workload] == [[1e6], [2e6]]


@pytest.mark.parametrize(("header", "options"), FLOWS.items(), ids=range(len(FLOWS)))
def test_so_do_the_options_for_the_command_line(here, header, options):
    """A column that is called 1 needs quotes, as the number 1 is no name."""
    name = here(header)
    refused = CliRunner().invoke(main, ["trace", "check", name])
    assert refused.exit_code == 2
    flags = re.search(r"line with (--format .*?)(, where|$)", refused.output.strip()).group(1)
    words = shlex.split(flags.replace("COLUMN", "'\"1\"'"))
    done = CliRunner().invoke(main, ["trace", "check", name, *words])
    assert done.exit_code == 0, done.output
    assert "mine.csv: flows, nothing wrong" in done.output


def test_an_experiment_names_its_keys(here):
    name = here("source,destination,bytes")
    table = {"network": {"name": "big-switch-128-10g"}, "workload": {"file": name}}
    with pytest.raises(InputError, match=r'workload\.file: mine\.csv: looks like a table of flows '
                       r'.*; add format = "flows", src = "source", dst = "destination", on the '
                       r'command line --set workload\.format=flows --set workload\.src=source '
                       r'--set workload\.dst=destination$'):
        netsim.Experiment(**table)
    table["workload"] |= {"format": "flows", "src": "source", "dst": "destination"}
    assert len(netsim.Experiment(**table).workload.built) == 2


def test_options_that_name_columns_need_no_format(here):
    assert len(netsim.read_workload(here("a,b,c"), src="a", dst="b", nbytes="c")) == 2
    assert len(netsim.read_workload(here("a,b,c", "mine.txt"), src="a", dst="b", nbytes="c")) == 2
    done = CliRunner().invoke(main, ["trace", "check", here("a,b,c"), "--set", "src=a", "--set",
                                     "dst=b", "--set", "nbytes=c"])
    assert done.exit_code == 0


def test_what_was_given_stays_in_the_call(here):
    name = here("origin,to,bytes")
    with pytest.raises(UnknownTableError, match="src='origin', dst='to'"):
        netsim.read_workload(name, src="origin")
    with pytest.raises(UnknownTableError, match="src='origin', dst='to'"):
        netsim.read_workload(name, format="flows", dst="two")


@pytest.mark.parametrize("suffix", [".tsv", ".dat", ".txt"])
def test_tables_with_other_suffixes(here, suffix):
    name = here("source,destination,bytes", f"mine{suffix}")
    with pytest.raises(UnknownTableError) as found:
        netsim.read_workload(name)
    assert len(eval(call_in(found.value))) == 2
    with pytest.raises(InputError, match=r"no format has the suffix '\.dat'"):
        netsim.read_workload(here("a b c", "other.dat"))


@pytest.mark.parametrize(("header", "format"), [
    ("user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration", "helios"),
    ("job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue",
     "acme"),
    ("num_gpu,submit_time,model_name,duration", "tiresias-cluster"),
    ("num_inst,submit_time,num_gpu,gpu_type,duration,user", "pai-100k"),
])
def test_traces_of_clusters_are_named(here, header, format):
    with pytest.raises(UnknownTableError, match=rf"^mine\.csv: looks like a table of the format "
                       rf"'{format}'; read it with netsim\.read_workload\('mine\.csv', "
                       rf"format='{format}'\), on the command line with --format {format}$"):
        netsim.read_workload(here(header))


def test_the_table_of_jobs_of_pai_has_no_header(here):
    with pytest.raises(UnknownTableError, match="format='pai'"):
        netsim.read_workload(here("a,b,c", "pai_job_table.csv"))


@pytest.mark.parametrize(("header", "message"), [
    ("0,1,1e6", "mine.csv:1: values, where the names of the columns should be; a table of flows"),
    ("user,gpu_num,node_num,state,submit_time,start_time,end_time,duration",
     "mine.csv: looks like a table of the format 'helios', but has no columns 'vc', 'cpu_num'"),
    ("a,b,c", "mine.csv: has columns of no format that netsim knows: 'a', 'b', 'c'; if each row "
     "is a flow, name its columns; read it with netsim.read_workload('mine.csv', format='flows', "
     "src='COLUMN', dst='COLUMN', nbytes='COLUMN'), on the command line with --format flows "),
    ("job_id,num_gpu", "mine.csv:1: missing column 'submit_time'"),
])
def test_what_no_call_reads(here, header, message):
    with pytest.raises(TraceError) as found:
        netsim.read_workload(here(header))
    assert str(found.value).startswith(message)


def test_a_report_has_the_call_too(here):
    report = netsim.check_trace(here("source,destination,bytes"))
    assert (report.format, report.facts) == ("unknown", ())
    [(line, message)] = report.problems
    assert line is None
    assert message.startswith("looks like a table of flows whose columns have other names; read it")


@pytest.mark.parametrize("call", [
    lambda table: netsim.Workload.from_frame(table, endpoints="host"),
    lambda table: SCHEDULERS.make("sjf-bco", {"search": "feasable"}),
    lambda table: Contention(time="sloted")])
def test_choices_have_the_nearest(call):
    with pytest.raises(InputError, match=r"(must be one of|unknown) .* \(did you mean '.*'\?\)"):
        call(pd.DataFrame({"src": [0]}))


def test_workers_send_the_error(here):
    with pytest.raises(UnknownTableError) as found:
        netsim.read_workload(here("source,destination,bytes"))
    copy = pickle.loads(pickle.dumps(found.value))
    assert (str(copy), copy.experiment) == (str(found.value), found.value.experiment)


def test_a_frame_says_which_columns_look_right():
    table = pd.DataFrame({"source": [0], "destination": [1], "bytes": [1e6]})
    with pytest.raises(InputError, match=r"there is no column 'src' for src; choose from: "
                       r"'source', 'destination', 'bytes' \(did you mean src='source', "
                       r"dst='destination'\?\)"):
        netsim.Workload.from_frame(table)
    assert len(netsim.Workload.from_frame(table, src="source", dst="destination")) == 1
