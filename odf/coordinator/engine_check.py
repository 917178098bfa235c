"""`odf engine check`: does an engine do what engines have to do?"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from odf.coordinator.engine_checks.base import Check, Subject
from odf.coordinator.engine_checks.suite import CHECKS
from odf.errors import EngineError, OdfError
from odf.runtimes.base import ContainerProgram
from odf.runtimes.pool import ENGINES, EnginePool, PoolSettings
from odf.runtimes.tcp_engine import ODF_PORT

if TYPE_CHECKING:
    from odf.coordinator.context import Context, RuntimeName, Settings


class CheckOutcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    DIFFERENT = "different"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of one check.

    Attributes:
        name: The check, in words.
        outcome: How it ended: `different` is an engine of others that does not keep a rule of
            ours, `skipped` a question that it does not answer.
        message: What was wrong, in a line; None if nothing was.
        seconds: How long it took.
    """

    name: str
    outcome: CheckOutcome
    message: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What came of all checks.

    Attributes:
        engine: What transforms call the engine.
        release: What it says it is; None if it does not answer that.
        runtime: What it ran in.
        results: One for each check, in order.
    """

    engine: str
    release: str | None
    runtime: str
    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether the engine does all that it has to."""
        return all(result.outcome is not CheckOutcome.FAILED for result in self.results)


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """What to check.

    Attributes:
        name: An engine's name, or an image.
        engine: What transforms call it, if `name` is an image; else None.
        port: Where an image serves.
    """

    name: str
    engine: str | None = None
    port: int = ODF_PORT


def check_engine(
    settings: "Settings",
    target: CheckTarget,
    *,
    ctx: "Context | None",
    runtime: "RuntimeName",
    report: Callable[[str], None],
) -> CheckReport:
    """Start an engine and check it.

    Args:
        settings: Where the cache is.
        target: What to check.
        ctx: The workspace whose configuration names engines of others; None without one.
        runtime: What to run it in.
        report: Told which check runs.

    Raises:
        EngineUnavailableError: It does not start.
    """
    from odf.coordinator.engine_images import configured_images  # noqa: PLC0415

    images = {} if ctx is None else configured_images(ctx.workspace.config)
    name = target.name.lower()
    if target.engine is not None:
        name = target.engine.lower() if target.engine.lower() not in ENGINES else "image"
        program = ContainerProgram(
            target.name,
            port=target.port,
            input_folder="/opt/engine/in",
            output_folder="/opt/engine/out",
            hint=f"get it: docker pull {target.name} (or podman pull)",
        )
        images = {name: program}
    pool_settings = PoolSettings(
        runtime=runtime,
        java_home=settings.java_home,
        cache_home=settings.cache_home,
        images=images,
    )
    with tempfile.TemporaryDirectory(prefix="odf-check-") as folder, ExitStack() as stack:
        pool = EnginePool(pool_settings, Path(folder) / "run", report)
        stack.callback(pool.close)
        files = Path(folder) / "files"
        files.mkdir()
        client = pool.client(name, dataset="check", trusted=True)
        subject = Subject(target.engine or name, client, files)
        release = _release(subject)
        ours = release is not None and target.engine is None
        results = tuple(_run_all(subject, pool, name, report, ours=ours, answers=bool(release)))
        return CheckReport(subject.name, release, ", ".join(pool.descriptions.values()), results)


def run_check(check: Check, subject: Subject) -> None:
    """Run one check.

    Raises:
        CheckFailedError: The engine does something else than it has to.
        EngineError: The engine fails.
    """
    check.run(subject)


def _run_all(
    subject: Subject,
    pool: EnginePool,
    name: str,
    report: Callable[[str], None],
    *,
    ours: bool,
    answers: bool,
) -> Iterator[CheckResult]:
    for check in CHECKS:
        if check.validates and not answers:
            yield CheckResult(check.name, CheckOutcome.SKIPPED, "it checks no queries", 0.0)
            continue
        report(check.name)
        # One that died of the check before gets another life.
        subject.client = pool.client(name, dataset="check", trusted=True)
        started = time.monotonic()
        message = _failure(check, subject)
        outcome = CheckOutcome.PASSED
        if message is not None:
            outcome = CheckOutcome.DIFFERENT if check.ours and not ours else CheckOutcome.FAILED
        yield CheckResult(check.name, outcome, message, round(time.monotonic() - started, 3))


def _failure(check: Check, subject: Subject) -> str | None:
    try:
        run_check(check, subject)
    except OdfError as error:
        return error.message.partition("\n")[0]
    except Exception as error:  # noqa: BLE001  # reading what an engine wrote may fail in any way
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return None


def _release(subject: Subject) -> str | None:
    try:
        return subject.client.describe().release
    except EngineError:
        # An engine of others: it knows the ODF service only.
        return None
