"""All figures, in the order of the page."""

from collections.abc import Sequence

from tests.bench.figure import Figure
from tests.bench.figures.blocks import EncodeBlocks
from tests.bench.figures.chain import ChainFromCache, ChainRebuilt
from tests.bench.figures.cold_pull import ColdPull, ColdPullCpu, ColdPullDerived
from tests.bench.figures.commit import CommitLatency
from tests.bench.figures.datafusion import LargeDerivative, SmallDerivative
from tests.bench.figures.engine_start import ContainerStart, SandboxStart
from tests.bench.figures.growth import LedgerGrowth, SnapshotGrowth
from tests.bench.figures.ingest import Ingest, IngestMemory, IngestPreprocessed, IngestWarm
from tests.bench.figures.integrity import VerifyIntegrity
from tests.bench.figures.logical_hash import LogicalHash
from tests.bench.figures.startup import ListDatasets, Version
from tests.bench.figures.stateful import AsOf, CheckpointSize, Groups, VerifyReplay, Windowed
from tests.bench.figures.transfer import PullFolder, PullHttp, PushFolder
from tests.bench.figures.up_to_date import UpToDateMany, UpToDateOne
from tests.bench.figures.warm import IdleMemory, ManyDerivatives, WarmPull, WarmPullDerived

FIGURES: Sequence[type[Figure]] = (
    Version,
    ListDatasets,
    UpToDateOne,
    UpToDateMany,
    ColdPull,
    ColdPullDerived,
    ColdPullCpu,
    WarmPull,
    WarmPullDerived,
    IdleMemory,
    SmallDerivative,
    LargeDerivative,
    ManyDerivatives,
    Windowed,
    Groups,
    AsOf,
    CheckpointSize,
    VerifyReplay,
    Ingest,
    IngestWarm,
    IngestPreprocessed,
    IngestMemory,
    LedgerGrowth,
    SnapshotGrowth,
    LogicalHash,
    EncodeBlocks,
    CommitLatency,
    ChainFromCache,
    ChainRebuilt,
    VerifyIntegrity,
    PushFolder,
    PullFolder,
    PullHttp,
    ContainerStart,
    SandboxStart,
)
"""Every figure there is."""
