"""Commands over source data: streams, ends, failures, and what they can reach."""

import gzip
import hashlib
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odf import limits
from odf.errors import BadInputError, EngineUnavailableError
from odf.ingest.prepare.pipe import PipeStream
from odf.runtimes.commands import CommandRunner
from tests.conftest import PROJECT
from tests.ingest.prepare.conftest import GUNZIP, Kitchen, pipe
from tests.ingest.prepare.test_decompress import Pieces

noise = random.Random(5)
MEGABYTE = 1 << 20


def failure(kitchen: Kitchen, *command: str, data: bytes = b"") -> BadInputError:
    with pytest.raises(BadInputError) as caught:
        kitchen.cook(data, pipe(*command))
    assert kitchen.leftovers == []
    return caught.value


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    size=st.sampled_from([0, 1, 4095, 4096, 65535, 65536, 65537, 1_000_000]),
    sizes=st.lists(st.integers(1, 100_000), max_size=50),
)
def test_any_size_in_any_pieces_comes_through(size, sizes, tmp_path: Path):
    data = noise.randbytes(size)
    command = CommandRunner(tmp_path, tmp_path / "scratch", runtime="process").start(["cat"])
    stream = PipeStream(Pieces(data, sizes), command, "here", Kitchen(tmp_path).bounds)
    try:
        assert b"".join(iter(stream.read, b"")) == data
        assert stream.weight() == size
    finally:
        stream.close()


def test_a_chain_streams_from_one_step_into_the_next(either: Kitchen):
    data = noise.randbytes(3 * MEGABYTE)
    steps = (GUNZIP, pipe("cat"), pipe("gzip", "-c"), GUNZIP, pipe("tr", "a", "b"))
    assert either.cook(gzip.compress(data), *steps) == data.replace(b"a", b"b")
    assert either.leftovers == []


def test_output_is_read_while_input_is_written(either: Kitchen):
    """Twice as much comes out as goes in, far beyond what a pipe holds."""
    data = noise.randbytes(2 * MEGABYTE)
    script = "import sys\nfor b in iter(lambda: sys.stdin.buffer.read(1000), b''):\n"
    script += " sys.stdout.buffer.write(b + b); sys.stderr.write('x' * 1000)"
    result = either.cook(data, pipe(sys.executable, "-c", script))
    assert len(result) == 2 * len(data)
    assert result[:2000] == data[:1000] * 2


def test_arguments_are_not_read_by_a_shell(either: Kitchen):
    text = "$HOME `id` * ; exit 1 'a' \"b\""
    assert either.cook(b"", pipe("printf", "%s", text)).decode() == text


def test_a_command_that_has_enough_ends_well(either: Kitchen):
    assert either.cook(b"one\ntwo\n" * 500_000, pipe("head", "-n", "1")) == b"one\n"


def test_steps_before_one_that_has_enough_are_ended(either: Kitchen):
    started = time.monotonic()
    assert either.cook(b"", pipe("sleep", "60"), pipe("echo", "done")) == b"done\n"
    assert either.cook(b"", pipe("yes"), pipe("head", "-n", "2")) == b"y\ny\n"
    assert time.monotonic() - started < 30


def test_what_a_command_leaves_behind_is_ended(either: Kitchen):
    started = time.monotonic()
    assert either.cook(b"", pipe("sh", "-c", "sleep 60 & echo done")) == b"done\n"
    assert time.monotonic() - started < 30


def test_a_failed_command_is_quoted(either: Kitchen):
    script = "cat >/dev/null; for n in 1 2 3; do echo line $n >&2; done; echo half; exit 7"
    error = failure(either, "sh", "-c", script, data=b"x")
    assert error.message == (
        "the-source: prepare[0] (Pipe sh): the command failed (exit status 7): line 3"
    )
    assert error.problems == ("line 1", "line 2", "line 3")
    assert error.details["exit_status"] == 7


def test_only_the_end_of_a_long_log_is_kept(either: Kitchen):
    error = failure(either, "sh", "-c", "seq 100000 >&2; exit 1")
    assert error.problems == tuple(str(n) for n in range(99_991, 100_001))
    assert len(error.problems) == limits.COMMAND_LOG_TAIL_LINES


def test_a_killed_command_is_said_to_be_killed(either: Kitchen):
    error = failure(either, "sh", "-c", "kill -9 $$")
    assert "killed by SIGKILL, without a word" in error.message.replace("(", "").replace(")", "")


def test_what_a_command_writes_cannot_steer_the_terminal(either: Kitchen):
    error = failure(either, "sh", "-c", r"printf '\033[2Jbad\n' >&2; exit 1")
    assert error.problems == ("\N{REPLACEMENT CHARACTER}[2Jbad",)


def test_damage_before_a_command_is_the_error_not_the_commands_own(either: Kitchen):
    whole = gzip.compress(noise.randbytes(MEGABYTE))
    with pytest.raises(BadInputError, match=r"prepare\[0\] \(Decompress gzip\): .* in the middle"):
        either.cook(whole[:-100], GUNZIP, pipe("sha256sum"), pipe("cat"))
    assert either.leftovers == []


def test_a_step_that_cannot_start_ends_those_before_it(either: Kitchen):
    with pytest.raises(BadInputError, match=r"prepare\[1\] .*no program 'no-such-program'"):
        either.cook(b"", pipe("yes"), pipe("no-such-program"))
    assert either.leftovers == []


def test_programs_that_are_not_there(either: Kitchen):
    assert "no program './clean.sh' at" in failure(either, "./clean.sh").message
    assert failure(either, "").reason == "bad_command"
    assert failure(either, "cat", "a\0b").reason == "bad_command"


def test_scripts_beside_the_manifest(either: Kitchen):
    script = either.root / "tools" / "clean.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\ntr a-z A-Z\n")
    table = either.root / "names.txt"
    table.write_text("s/A/[a]/\n")
    with pytest.raises(BadInputError, match="no program"):
        either.cook(b"abc", pipe("tools/clean.sh"))
    script.chmod(0o755)
    assert either.cook(b"abc", pipe("tools/clean.sh")) == b"ABC"
    assert either.cook(b"abc", pipe("sh", str(script))) == b"ABC"
    assert either.cook(b"ABC", pipe("sed", "-f", "names.txt")) == b"[a]BC"
    assert either.cook(b"ABC", pipe("sed", "--file=names.txt")) == b"[a]BC"


def test_the_environment_is_short_and_has_nothing_of_the_user(
    either: Kitchen, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ODF_SECRET_CANARY", "tweet")
    names = {line.partition(b"=")[0].decode() for line in either.cook(b"", pipe("env")).split()}
    assert names <= {"HOME", "LANG", "LC_ALL", "PATH", "PWD", "TMPDIR", "TZ"}


@pytest.mark.sandbox
class TestSandbox:
    """What a command can reach where the sandbox works."""

    @pytest.fixture
    def inside(self, tmp_path: Path) -> Kitchen:
        kitchen = Kitchen(tmp_path, runtime="bubblewrap")
        try:
            kitchen.runner().why_unsandboxed()
        except EngineUnavailableError as error:
            pytest.skip(error.message)
        return kitchen

    def test_no_network(self, inside: Kitchen):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
            assert failure(inside, sys.executable, "-c", script).details["exit_status"] == 1
            outside = Kitchen(inside.root, runtime="process")
            assert outside.cook(b"", pipe(sys.executable, "-c", script)) == b""

    def test_no_files_but_those_that_are_named(self, inside: Kitchen):
        other = inside.root / "other.txt"
        other.write_text("hidden")
        script = inside.root / "look.sh"
        script.write_text(f"cat {other}")
        assert "No such file" in failure(inside, "sh", "look.sh").message
        assert inside.cook(b"", pipe("sh", "look.sh", str(other))) == b"hidden"

    def test_nothing_can_be_changed(self, inside: Kitchen):
        named = inside.root / "named.txt"
        named.write_text("mine")
        failure(inside, "sh", "-c", "echo yours > $0", str(named))
        failure(inside, "sh", "-c", "echo x > new.txt" if not _in_tmp(named) else "echo x > /usr/x")
        assert named.read_text() == "mine"
        assert not (inside.root / "new.txt").exists()

    def test_a_sandbox_that_does_not_work_is_an_error_only_where_it_is_insisted_on(
        self, inside: Kitchen, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("PATH", str(inside.root))
        with pytest.raises(EngineUnavailableError, match=r"prepare.*bwrap is not installed"):
            inside.cook(b"", pipe("cat"))
        relaxed = Kitchen(inside.root, runtime="auto")
        assert relaxed.cook(b"x", pipe("cat")) == b"x"
        assert relaxed.said == ["running cat without a sandbox: bwrap is not installed"]


def _in_tmp(path: Path) -> bool:
    return path.is_relative_to("/tmp")


@pytest.mark.parametrize("packing", ["gzip", "zip"])
def test_memory_stays_the_same_however_large_the_data_is(packing: str, tmp_path: Path):
    """In a process of its own, whose largest size the system keeps."""
    size = 600 * MEGABYTE
    script = f"""
import gzip, hashlib, resource, sys, zipfile
from pathlib import Path
from odf.ingest.prepare import PrepareContext, prepare
from odf.metadata.model import CompressionFormat, PrepStepDecompress, PrepStepPipe
from odf.runtimes.commands import CommandRunner

root = Path(sys.argv[1])
source = root / "zeros"
def fill(file):
    for _ in range({size // MEGABYTE}):
        file.write(bytes({MEGABYTE}))

if "{packing}" == "gzip":
    with gzip.open(source, "wb", 1) as file:
        fill(file)
else:
    packed = zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with packed, packed.open("zeros.csv", "w") as file:
        fill(file)
steps = [
    PrepStepDecompress(format=CompressionFormat.{packing.upper()}),
    PrepStepPipe(command=("cat",)),
    PrepStepPipe(command=("sha256sum",)),
]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ctx = PrepareContext(root / "cache", CommandRunner(root, root / "scratch"), print)
result = prepare(steps, source, "zeros", ctx)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(result.read_text().split()[0], after - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    digest, grown = done.stdout.splitlines()[-1].split()
    assert digest == hashlib.sha256(bytes(size)).hexdigest()
    assert int(grown) < 50_000  # KiB
