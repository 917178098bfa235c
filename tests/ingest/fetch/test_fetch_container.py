"""`Container` sources under docker and podman: the contract of the files, and what breaks it."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pytest

from odf.errors import BadInputError, EngineUnavailableError
from odf.ingest.fetch import Fetched, Unchanged, fetch, runs_of, template_variables
from odf.metadata.model import EnvVar, FetchStepContainer, SourceState
from odf.runtimes.container_cli import ContainerCli, ContainerToolName
from odf.runtimes.source_container import ContainerRunner
from tests.ingest.fetch.conftest import Around
from tests.ingest.fetch.images import make_image

FROM_STATE = """
at=${ODF_ETAG:-0}
[ "$at" -ge 100 ] && { echo "$at" > /dev/null; printf %s "$at" > "$ODF_NEW_ETAG_PATH"; exit 0; }
end=$((at + ODF_BATCH_SIZE))
[ "$end" -ge 100 ] && end=100 || : > "$ODF_NEW_HAS_MORE_DATA_PATH"
seq $((at + 1)) "$end"
printf %s "$end" > "$ODF_NEW_ETAG_PATH"
"""


class Box:
    """A tool that runs containers, with an image."""

    def __init__(self, tool: ContainerToolName) -> None:
        self.tool = tool
        self.image = make_image(tool)
        self.runner = ContainerRunner(tool)

    def step(
        self,
        script: str,
        *arguments: str,
        env: Mapping[str, str | None] | None = None,
        **more: Any,
    ) -> FetchStepContainer:
        variables = tuple(EnvVar(name, value) for name, value in (env or {}).items())
        return FetchStepContainer(
            self.image,
            command=("/bin/sh", "-c"),
            args=(script, "sh", *arguments),
            env=variables,
            **more,
        )

    def take(
        self,
        around: Around,
        step: FetchStepContainer,
        state: SourceState | None = None,
        **more: Any,
    ) -> Fetched | Unchanged:
        ctx = around.ctx(containers=self.runner, dataset=f"did:odf:{self.tool}", **more)
        return fetch(step, state, ctx)

    def left(self) -> Sequence[str]:
        """Name the containers of this dataset that are still there."""
        done = ContainerCli(self.tool).call("ps", "-a", "--format", "{{.Names}}")
        return [name for name in done.stdout.decode().split() if name.startswith("odf-fetch-")]


@pytest.fixture(params=get_args(ContainerToolName))
def box(request: pytest.FixtureRequest) -> Box:
    return Box(request.param)


def etag(value: str) -> SourceState:
    return SourceState("default", "odf/etag", value)


def content(found: Fetched | Unchanged) -> str:
    assert isinstance(found, Fetched), found
    return found.path.read_text()


def test_batches_until_there_is_no_more(box: Box, around: Around) -> None:
    """The reference's own case: 100 rows by 40."""
    step = box.step(FROM_STATE, env={"ODF_BATCH_SIZE": "40"})
    state, came, states = None, [], []
    while True:
        found = box.take(around, step, state)
        came += content(found).split()
        assert isinstance(found, Fetched)
        assert found.is_batch
        state = found.source_state
        states.append((state.value if state else None, found.has_more))
        if not found.has_more:
            break
    assert came == [str(number) for number in range(1, 101)]
    assert states == [("40", True), ("80", True), ("100", False)]
    assert isinstance(box.take(around, step, state), Unchanged)
    assert box.left() == []
    assert not [name for name in around.leftovers if not name.endswith(".data")]


def test_what_a_container_is_told(box: Box, around: Around) -> None:
    script = 'env; echo "1=$1"; echo "2=$2"; ls -d /opt/odf/out'
    step = box.step(
        script,
        "two words",
        "${{ env.ARG || 'x' }}",
        env={"PLAIN": "a b\nc", "KEY": "${{ env.TOKEN }}", "PASSED": None, "PATH": "/bin"},
    )
    assert template_variables(step) == ("ARG", "TOKEN", "PASSED")
    environment = {"TOKEN": "s3cret", "PASSED": "on", "SECRET": "no"}
    lines = content(box.take(around, step, etag('W/"1"'), environment=environment)).splitlines()
    for line in (
        "ODF_BATCH_SIZE=10000",
        'ODF_ETAG=W/"1"',
        "ODF_LAST_MODIFIED=",
        "ODF_NEW_ETAG_PATH=/opt/odf/out/new-etag",
        "ODF_NEW_LAST_MODIFIED_PATH=/opt/odf/out/new-last-modified",
        "ODF_NEW_HAS_MORE_DATA_PATH=/opt/odf/out/new-has-more-data",
        "KEY=s3cret",
        "PASSED=on",
        "PLAIN=a b",
        "c",
        "PATH=/bin",
        "1=two words",
        "2=x",
        "/opt/odf/out",
    ):
        assert line in lines
    assert not [line for line in lines if line.startswith("SECRET")]


def test_last_modified(box: Box, around: Around) -> None:
    step = box.step(
        'echo "[$ODF_LAST_MODIFIED]"; echo 2024-05-06T07:08:09+02:00 > $ODF_NEW_LAST_MODIFIED_PATH'
    )
    first = box.take(around, step)
    assert content(first) == "[]\n"
    assert isinstance(first, Fetched)
    assert first.source_state == SourceState("default", "odf/last-modified", "2024-05-06T05:08:09Z")
    quiet = box.step("echo 2024-05-06T07:08:09+02:00 > $ODF_NEW_LAST_MODIFIED_PATH")
    assert isinstance(box.take(around, quiet, first.source_state), Unchanged)


def test_no_data(box: Box, around: Around) -> None:
    assert isinstance(box.take(around, box.step(":")), Unchanged)
    assert isinstance(box.take(around, box.step(":"), etag("1")), Unchanged)
    moved = box.take(around, box.step("printf 2 > $ODF_NEW_ETAG_PATH"), etag("1"))
    assert isinstance(moved, Fetched)
    assert moved.is_empty
    assert moved.source_state == etag("2")
    stateless = box.take(around, box.step("echo data"))
    assert content(stateless) == "data\n"
    assert isinstance(stateless, Fetched)
    assert stateless.source_state is None


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo x; printf 1 > $ODF_NEW_ETAG_PATH", "says that it is still at '1'"),
        ("echo x; : > $ODF_NEW_HAS_MORE_DATA_PATH", "not where to go on"),
        ("echo soon > $ODF_NEW_LAST_MODIFIED_PATH", "wanted a time"),
        ("ln -s /etc/passwd $ODF_NEW_ETAG_PATH", "new-etag that cannot be used"),
        ("mkdir $ODF_NEW_ETAG_PATH", "not an ordinary file|Is a directory"),
        ("seq 1 9999 > $ODF_NEW_ETAG_PATH", "longer than 1024 bytes"),
        (r"printf '\377' > $ODF_NEW_ETAG_PATH", "no UTF-8 text"),
        ("mkdir -p /opt/odf/out/a/b; chmod 0 /opt/odf/out/a; exit 3", "exit status 3"),
    ],
)
def test_what_breaks_the_contract(script: str, said: str, box: Box, around: Around) -> None:
    with pytest.raises(BadInputError, match=said):
        box.take(around, box.step(script), etag("1"))
    assert around.leftovers == []
    assert box.left() == []


def test_a_failure_shows_the_last_lines_without_secrets(box: Box, around: Around) -> None:
    step = box.step('echo data; echo "bad key $KEY" >&2; exit 7', env={"KEY": "${{ env.TOKEN }}"})
    with pytest.raises(BadInputError, match=r"odf-source-test:1 failed: exit status 7") as failed:
        box.take(around, step, environment={"TOKEN": "s3cret"})
    assert failed.value.problems == ("bad key ***",)
    assert around.leftovers == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image": "--privileged"}, "is no name of an image"),
        ({"image": "a b"}, "is no name of an image"),
        ({"image": ""}, "is no name of an image"),
        ({"env": (EnvVar("A=B", "c"),)}, "is no name of a variable"),
        ({"env": (EnvVar("", "c"),)}, "is no name of a variable"),
        ({"env": (EnvVar("ODF_BATCH_SIZE", "many"),)}, "wanted a number of records"),
        ({"env": (EnvVar("A", "a\0b"),)}, "NUL"),
        ({"command": ("",)}, "the command is empty"),
        ({"env": (EnvVar("ABSENT"),)}, "ABSENT"),
    ],
)
def test_steps_that_can_never_work(
    changes: dict[str, Any], said: str, box: Box, around: Around
) -> None:
    step = FetchStepContainer(**({"image": box.image} | changes))
    with pytest.raises(BadInputError, match=said):
        box.take(around, step)
    assert around.leftovers == []


def test_an_image_that_is_nowhere(box: Box, around: Around) -> None:
    step = FetchStepContainer("127.0.0.1:1/nowhere/nothing:1")
    with pytest.raises(BadInputError, match="failed: exit status 125"):
        box.take(around, step)
    assert any("pulls 127.0.0.1:1/nowhere/nothing:1" in line for line in around.said)


def test_an_image_with_a_secret_in_its_name(box: Box, around: Around) -> None:
    step = FetchStepContainer("${{ env.PLACE }}/nothing:1")
    for place in ("127.0.0.1:1/s3cr3t", "s3 cr3t", "-s3cr3t"):
        with pytest.raises(BadInputError) as refused:
            box.take(around, step, environment={"PLACE": place})
        error = refused.value
        shown = [error.message, str(error), *error.problems, *around.said]
        assert "cr3t" not in "".join(shown)
        assert "***" in error.message


def test_too_much(box: Box, around: Around) -> None:
    with pytest.raises(BadInputError, match="more than the 1000 bytes"):
        box.take(around, box.step("seq 1 100000; sleep 1000"), max_size=1000)
    assert box.left() == []
    assert around.leftovers == []


def test_an_interrupted_pull_ends_its_container(box: Box, around: Around) -> None:
    def interrupt(line: str) -> None:
        if "MiB" in line:
            raise KeyboardInterrupt

    step = box.step("while :; do seq 1 1000000; done")
    with pytest.raises(KeyboardInterrupt):
        box.take(around, step, report=interrupt)
    assert box.left() == []
    assert around.leftovers == []


def test_one_that_outlived_its_pull_is_ended_by_the_next(box: Box, around: Around) -> None:
    """As after kill -9, which nobody can answer."""
    started = threading.Event()
    seen: list[str] = []
    ends: list[BadInputError] = []

    def listen(line: str) -> None:
        if "MiB" in line and not started.is_set():
            seen.extend(box.left())
            started.set()

    forever = box.step("while :; do seq 1 1000000; done")

    def run() -> None:
        try:
            box.take(around, forever, report=listen)
        except BadInputError as error:
            ends.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(250)
    assert ends == []
    other = Around(around.root / "other")
    assert content(box.take(other, box.step("echo next"))) == "next\n"
    thread.join(60)
    assert not thread.is_alive()
    assert "failed" in ends[0].message
    assert len(seen) == 1
    assert box.left() == []


def test_no_tool_at_all(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineUnavailableError, match="no containers can be run here") as refused:
        fetch(FetchStepContainer("img"), None, around.ctx(containers=ContainerRunner()))
    assert refused.value.exit_code == 9
    assert around.leftovers == []


def test_what_consent_is_asked_for() -> None:
    step = FetchStepContainer(
        "img:1",
        command=("/fetch", "all"),
        args=("-x", "y z"),
        env=(EnvVar("A", "b"), EnvVar("KEY")),
    )
    assert runs_of(step) == (
        (
            "container",
            "run",
            "--env",
            "A=b",
            "--env",
            "KEY",
            "--entrypoint",
            '["/fetch", "all"]',
            "img:1",
            "-x",
            "y z",
        ),
    )
