"""What an ingest may do, and where it happens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odf.clock import Clock
from odf.data.readers import OWN_READER, SliceReader
from odf.metadata.model import SetPollingSource, TransformSql
from odf.runtimes.commands import CommandRunner
from odf.runtimes.source_container import ContainerRunner

if TYPE_CHECKING:  # grpc is loaded when an engine is needed, not to find that nothing changed
    from odf.runtimes.client import EngineClient

DEFAULT_RETRACT_SHARE: Final = 0.5
"""A snapshot that loses more than this share of the current rows is refused."""

MIN_ROWS_FOR_RETRACT_GUARD: Final = 20
"""Current states below this size may lose any share of their rows: small tables do change."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What the caller allows and configures.

    Attributes:
        allow_retract: Accept snapshots that lose any number of rows.
        allow_empty: Accept source files without any content.
        max_retract_share: Share of the current rows that a snapshot may lose, 0 to 1.
        watermark_lag_ms: How far the watermark that is written stays behind the newest event.
        take_late: Take files of a `FilesGlob` source that came after their turn, too.
        reread_reorganised: Read blocks of a chain again that was re-organised behind them.
        quarantine_dir: Where rows that cannot be read are set aside; None to stop at them.
    """

    allow_retract: bool = False
    allow_empty: bool = False
    max_retract_share: float = DEFAULT_RETRACT_SHARE
    watermark_lag_ms: int = 0
    take_late: bool = False
    reread_reorganised: bool = False
    quarantine_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class IngestSurroundings:
    """Where an ingest happens.

    Attributes:
        workspace_root: What relative paths of sources are relative to.
        cache_dir: Where downloads of this dataset go.
        staging_dir: Where slices wait for their commit; on the dataset's file system.
        clock: Where the time comes from.
        engine: Starts the engine that reads and merges, or gives the one that runs.
        query_engine: The same for the engine that a preprocess query asks for.
        report: Told what is being done.
        permitted: Checks that the user agreed to what a source reads from the environment and
            runs, and returns the variables that it may read; raises where the user did not.
        commands: Starts the commands of a source.
        proxies: The variables that name proxies.
        containers: Runs the containers of a source; None where none may be run.
        ethereum_nodes: Addresses of Ethereum nodes by the number of their chain.
        expect_work: Called when data is on its way, so that what it needs can be made ready.
        merge_dir: Where the dataset's history is kept folded for merges; None to do without.
        reader: Reads the slices that engines propose.
    """

    workspace_root: Path
    cache_dir: Path
    staging_dir: Path
    clock: Clock
    engine: "Callable[[], EngineClient]"
    query_engine: "Callable[[TransformSql], EngineClient]"
    report: Callable[[str], None]
    permitted: Callable[[SetPollingSource], Mapping[str, str]]
    commands: CommandRunner
    proxies: Mapping[str, str] = field(default_factory=dict)
    expect_work: Callable[[], None] = lambda: None
    merge_dir: Path | None = None
    reader: SliceReader = OWN_READER
    containers: ContainerRunner | None = None
    ethereum_nodes: Mapping[int, str] = field(default_factory=dict)
