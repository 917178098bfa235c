"""Sessions: what DataFusion is told, so that a query gives the same rows everywhere."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odf.engines.datafusion.functions import ALLOWED, TABLE_FUNCTIONS
from odf.engines.datafusion.json_functions import register
from odf.errors import EngineUnavailableError

if TYPE_CHECKING:
    from datafusion import DataFrame, SessionContext

_SETTINGS: Final = {
    # One partition for each input, whose rows stay in order (engine-protocol.md §4).
    "datafusion.execution.target_partitions": "1",
    "datafusion.execution.enable_file_stream_work_stealing": "false",
    # Floating sums go batch by batch.
    "datafusion.execution.batch_size": "32768",
    "datafusion.execution.enable_recursive_ctes": "false",
    "datafusion.execution.enable_ansi_mode": "false",
    "datafusion.sql_parser.dialect": "generic",
    "datafusion.sql_parser.enable_ident_normalization": "false",
    "datafusion.sql_parser.parse_float_as_decimal": "false",
    "datafusion.sql_parser.default_null_ordering": "nulls_max",
    "datafusion.catalog.information_schema": "false",
}
"""Also what is DataFusion's default today, where another value would give other results.

There is no time zone: times are UTC then. With one, DataFusion 55 fails on `to_timestamp` of a
column of texts (its issue 24632).
"""


_MEMORY_OF_AN_OPERATION: Final = 1 << 29
"""Bytes for each of the operations that run at once: these are maps and filters as a rule."""


@dataclass(frozen=True, slots=True)
class DataFusionSettings:
    """Where and how the engine runs.

    Attributes:
        scratch: Folder for the engine's temporary files.
        memory: Bytes that sorting, grouping and joining may take before they write files, in all
            operations together.
        slice_by_slice: Run queries that need state over the rows of each step alone, as the
            engine did that public datasets were made with. For replays of datasets that were made
            elsewhere; otherwise such queries are refused.
    """

    scratch: Path
    memory: int = 1 << 30
    slice_by_slice: bool = False

    @property
    def operations(self) -> int:
        """Number of operations that may run at once."""
        return max(1, min(len(os.sched_getaffinity(0)), self.memory // _MEMORY_OF_AN_OPERATION))


def require() -> None:
    """Load DataFusion.

    Raises:
        EngineUnavailableError: It is not installed.
    """
    try:
        import datafusion  # noqa: F401, PLC0415
    except ImportError as error:
        raise EngineUnavailableError(
            f"DataFusion cannot be loaded: {error}",
            hint="install it: pip install 'opendatafabric[datafusion]'",
        ) from error


def make_session(settings: DataFusionSettings, scratch: Path) -> "SessionContext":
    """Return a session without tables that knows the allowed functions only.

    Args:
        settings: How the engine runs.
        scratch: Folder for what does not fit into memory.
    """
    from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext  # noqa: PLC0415

    config = SessionConfig()
    for name, value in _SETTINGS.items():
        config = config.set(name, value)
    runtime = (
        RuntimeEnvBuilder()
        .with_disk_manager_specified(str(scratch))
        .with_fair_spill_pool(settings.memory // settings.operations)
    )
    context = SessionContext(config, runtime)
    for name in TABLE_FUNCTIONS:
        context.deregister_udtf(name)
    for name in context.udfs():
        if name not in ALLOWED:
            context.deregister_udf(name)
    for name in context.udafs():
        if name not in ALLOWED:
            context.deregister_udaf(name)
    for name in context.udwfs():
        if name not in ALLOWED:
            context.deregister_udwf(name)
    register(context)
    return context


@cache
def builtin_functions() -> frozenset[str]:
    """Return the names of all functions that the installed DataFusion has."""
    from datafusion import SessionContext  # noqa: PLC0415

    context = SessionContext()
    return frozenset([*context.udfs(), *context.udafs(), *context.udwfs()])


def query(context: "SessionContext", sql: str) -> "DataFrame":
    """Plan one query; nothing else is accepted, and nothing is run."""
    from datafusion import SQLOptions  # noqa: PLC0415

    options = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
    return context.sql_with_options(sql, options)


def quoted(name: str) -> str:
    """Return a name as DataFusion's own parser of names takes it without changing it."""
    return '"' + name.replace('"', '""') + '"'
