"""What every engine does alike: one suite over Spark and DataFusion, in every runtime.

The checks themselves belong to `odf engine check`, which runs them against any image.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from odf.coordinator.context import Settings
from odf.coordinator.engine_check import CheckOutcome, CheckTarget, check_engine
from odf.coordinator.engine_checks.base import (
    THREE,
    Check,
    CheckFailedError,
    Subject,
    expect,
    expect_invalid,
)
from odf.coordinator.engine_checks.suite import CHECKS
from odf.errors import InvalidQueryError, NotFoundError
from odf.runtimes.base import (
    ContainerProgram,
    EngineCommand,
    EngineHandle,
    Runtime,
    python_command,
)
from odf.runtimes.bubblewrap import BubblewrapRuntime
from odf.runtimes.container import ContainerRuntime
from odf.runtimes.images import ARCHIVES_INSIDE, SPECS, image_name, own_program
from odf.runtimes.process import ProcessRuntime
from odf.runtimes.tcp_engine import TcpContainerRuntime

SANDBOX, CONTAINER, SPARK = pytest.mark.sandbox, pytest.mark.container, pytest.mark.spark
RUNNING = [
    pytest.param(("datafusion", "process"), id="datafusion-process"),
    pytest.param(("datafusion", "bubblewrap"), id="datafusion-bubblewrap", marks=SANDBOX),
    pytest.param(("datafusion", "docker"), id="datafusion-docker", marks=CONTAINER),
    pytest.param(("datafusion", "podman"), id="datafusion-podman", marks=CONTAINER),
    pytest.param(("datafusion", "tcp"), id="datafusion-tcp", marks=CONTAINER),
    pytest.param(("spark", "process"), id="spark-process", marks=SPARK),
    pytest.param(("spark", "bubblewrap"), id="spark-bubblewrap", marks=(SPARK, SANDBOX)),
    pytest.param(("spark", "docker"), id="spark-docker", marks=(SPARK, CONTAINER)),
]
# DataFusion keeps no state; what Spark does with these is the matter of its own tests.
STATEFUL = {
    "group": "SELECT max(event_time) AS event_time, v FROM a GROUP BY v",
    "aggregate": "SELECT max(event_time) AS event_time FROM a",
    "distinct": "SELECT DISTINCT event_time FROM a",
    "union": "SELECT event_time FROM a UNION SELECT event_time FROM b",
    "join": "SELECT x.event_time FROM a AS x JOIN b AS y ON x.n = y.n",
    "window": "SELECT event_time, row_number() OVER (ORDER BY n) AS r FROM a",
    "limit": "SELECT event_time FROM a LIMIT 1",
    "order": "SELECT event_time FROM a ORDER BY n LIMIT 1",
    "subquery": "SELECT event_time FROM a WHERE n IN (SELECT n FROM b)",
    "exists": "SELECT event_time FROM a WHERE EXISTS (SELECT n FROM b)",
}


@dataclass
class Started:
    """An engine that the tests of one parameter share."""

    name: str
    runtime: str
    handle: EngineHandle


def settings_in(folder: Path) -> Settings:
    return Settings(data_home=folder, cache_home=folder, config_home=folder)


def make_runtime(engine: str, runtime: str) -> Runtime:
    if runtime == "process":
        return ProcessRuntime(python_command(f"odf.engines.{engine}"))
    made: BubblewrapRuntime | ContainerRuntime
    if runtime == "bubblewrap":
        made = BubblewrapRuntime(python_command(f"odf.engines.{engine}"))
    elif runtime == "tcp":
        made = TcpContainerRuntime("docker", served_as_others_do(engine))
    else:
        inside = ("--archives", ARCHIVES_INSIDE) if engine == "spark" else ()
        command = EngineCommand((), container=own_program(engine, *inside))
        made = ContainerRuntime("podman" if runtime == "podman" else "docker", command)
    if (reason := made.why_not()) is not None:
        pytest.skip(f"{runtime} does not work here: {reason}")
    return made


def served_as_others_do(engine: str) -> EngineCommand:
    """Our image as anybody runs it: as it starts by itself, with the port and the usual folders."""
    image = image_name(SPECS[engine])
    program = ContainerProgram(
        image, port=5544, input_folder="/opt/engine/in", output_folder="/opt/engine/out"
    )
    return EngineCommand((), container=program)


@pytest.fixture(scope="module", params=RUNNING)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Started]:
    engine, runtime = request.param
    with make_runtime(engine, runtime).start(tmp_path_factory.mktemp(engine)) as handle:
        yield Started(engine, runtime, handle)


@pytest.fixture
def subject(running: Started, tmp_path: Path) -> Subject:
    return Subject(running.name, running.handle.client, tmp_path)


@pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])
def test_check(subject: Subject, check: Check) -> None:
    check.run(subject)


def test_checks_have_names_of_their_own() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("query", STATEFUL.values(), ids=STATEFUL)
def test_queries_that_need_state_are_refused_where_none_is_kept(
    running: Started, subject: Subject, query: str
) -> None:
    if running.name != "datafusion":
        pytest.skip("Spark keeps state")
    inputs = (subject.given(THREE), subject.given(THREE, alias="b"))
    with pytest.raises(InvalidQueryError, match="needs state"):
        subject.validate(query, inputs=inputs)
    with pytest.raises(InvalidQueryError, match="needs state"):
        subject.derive(query, inputs=inputs)


def test_a_missing_slice_is_said_at_once(subject: Subject) -> None:
    gone = replace(subject.given(THREE), data=(subject.folder / "gone",))
    with pytest.raises(NotFoundError):
        subject.derive("SELECT event_time FROM a", inputs=(gone,))


PARTS = "array(2) AS q, struct(3 AS r) AS p, 1.5BD AS m, date'2020-01-01' AS d, true AS b, 'x' AS s"


def test_a_structure_can_be_null_whose_parts_never_are(running: Started, subject: Subject) -> None:
    if running.name != "spark":
        pytest.skip("DataFusion declares all parts of structures nullable")
    given = (subject.given(((0, "x", 1), (0, "y", 2), (0, None, None))),)
    for query in (
        f"SELECT event_time, IF(n > 1, struct(n, 1 AS o, {PARTS}), NULL) AS z FROM a",
        "SELECT event_time, lag(struct(n, 1 AS o), -1) OVER (ORDER BY event_time) AS z FROM a",
    ):
        _, rows = subject.derive(query, inputs=given)
        assert {row["z"]["o"] if row["z"] else None for row in rows} == {None, 1}


def test_operations_at_once_do_not_meet(running: Started, subject: Subject) -> None:
    """The same names of inputs and steps, other rows and other queries: sessions of their own."""
    inputs = [
        (subject.given([(0, f"{number}-{row}", row) for row in range(40)]),) for number in range(4)
    ]
    asked: list[tuple[str | tuple[str, str], ...]] = [
        ("SELECT event_time, v, n + 1 AS m FROM a",),
        (("s", "SELECT event_time, v, n FROM a WHERE n > 7"), "SELECT event_time, v AS n FROM s"),
        (("s", "SELECT event_time, n FROM a"), "SELECT event_time, n AS w FROM s WHERE n < 5"),
    ]
    if running.name == "spark":
        asked.append(
            ("SELECT max(event_time) AS event_time, n % 3 AS k, sum(n) AS s FROM a GROUP BY n % 3",)
        )

    def derive(number: int) -> list[dict[str, object]]:
        return subject.derive(*asked[number % len(asked)], inputs=inputs[number % 4])[1]

    one_by_one = [derive(number) for number in range(12)]
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(derive, range(12))) == one_by_one
    assert all(one_by_one)
    described = running.handle.client.describe()
    if running.runtime in ("process", "bubblewrap"):
        assert described.operations == min(2, len(os.sched_getaffinity(0)))


def test_a_report_tells_what_failed(tmp_path: Path) -> None:
    """The checks of a good engine pass; a bad expectation is seen."""
    report = check_engine(
        settings_in(tmp_path),
        CheckTarget("datafusion"),
        ctx=None,
        runtime="process",
        report=lambda _: None,
    )
    assert (report.engine, report.runtime, report.passed) == ("datafusion", "process", True)
    assert {result.outcome for result in report.results} == {CheckOutcome.PASSED}
    with pytest.raises(CheckFailedError, match="wanted 1, got 2"):
        expect(2, 1, "number")
    with pytest.raises(CheckFailedError, match="it was accepted"):
        expect_invalid(lambda: None, "query")


@CONTAINER
def test_an_image_of_others_is_checked_by_its_port(tmp_path: Path) -> None:
    make_runtime("datafusion", "docker")
    report = check_engine(
        settings_in(tmp_path),
        CheckTarget(image_name(SPECS["datafusion"]), engine="datafusion"),
        ctx=None,
        runtime="docker",
        report=lambda _: None,
    )
    assert (report.runtime, report.passed) == ("docker", True)
