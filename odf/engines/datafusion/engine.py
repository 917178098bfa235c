"""The DataFusion engine behind the host (ODF "Engine"; engine-protocol.md §4, design §6)."""

import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import odf
from odf.engines.datafusion import run
from odf.engines.datafusion.session import DataFusionSettings, require
from odf.engines.host.engine import (
    IngestedRows,
    IngestJob,
    Migration,
    Provenance,
    QueryValidation,
    Reporter,
    Rows,
    TransformJob,
    ValidatedInput,
)
from odf.errors import InvalidQueryError
from odf.metadata.model import DatasetVocabulary, TransformSql
from odf.protocol.releases import DATAFUSION_RELEASE


class DataFusionEngine:
    """An engine that maps, filters and unites with DataFusion, without Java.

    It reads slices and Parquet files only: source files are read and merged by Spark.

    Args:
        settings: Where and how it runs.
    """

    name = "datafusion"
    release = DATAFUSION_RELEASE

    def __init__(self, settings: DataFusionSettings) -> None:
        self._settings = settings

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of DataFusion, Arrow and this package."""
        return {
            "datafusion": version("datafusion"),
            "pyarrow": version("pyarrow"),
            "odf": odf.__version__,
        }

    @property
    def operations(self) -> int:
        """One for each processor, as far as the memory goes."""
        return self._settings.operations

    def warm_up(self) -> None:
        """Load the library.

        Raises:
            EngineUnavailableError: If it is not installed.
        """
        require()

    def validate(
        self,
        transform: TransformSql,
        inputs: Sequence[ValidatedInput],
        vocab: DatasetVocabulary,
        *,
        preprocess: bool,
    ) -> QueryValidation:
        """Check a query without running it; see the protocol."""
        _check_engine(transform)
        self._settings.scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="validate-", dir=self._settings.scratch) as folder:
            return run.validate(
                self._settings, transform, inputs, vocab, Path(folder), preprocess=preprocess
            )

    def transform(self, job: TransformJob) -> Rows:
        """Run the query of a derivative dataset; see the protocol."""
        _check_engine(job.transform)
        return run.transform(self._settings, job)

    def migrate(
        self,
        transform: TransformSql,
        inputs: Sequence[ValidatedInput],  # noqa: ARG002  # the protocol's
        vocab: DatasetVocabulary,  # noqa: ARG002  # the protocol's
        checkpoint: Path,  # noqa: ARG002  # the protocol's
    ) -> Migration:
        """Give up whatever state another engine has left; see the protocol."""
        _check_engine(transform)
        return Migration("the DataFusion engine keeps no state", {})

    def provenance(self, job: TransformJob) -> Provenance:
        """Refuse; see the protocol.

        Raises:
            InvalidQueryError: Always.
        """
        _check_engine(job.transform)
        raise InvalidQueryError(
            "the DataFusion engine does not tell where rows come from",
            hint="the Spark engine does (engine: spark)",
        )

    def raw_query(self, transform: TransformSql, input_paths: Sequence[str], scratch: Path) -> Rows:
        """Run a query over plain Parquet files; see the protocol."""
        _check_engine(transform)
        return run.raw_query(self._settings, transform, input_paths, scratch)

    def ingest(self, job: IngestJob, report: Reporter) -> IngestedRows:  # noqa: ARG002
        """Refuse: the coordinator never asks this engine for it.

        Raises:
            InvalidQueryError: Always.
        """
        raise InvalidQueryError(
            f"the DataFusion engine does not read source files ({job.dataset_alias})",
            hint="source files are read and merged by the Spark engine",
        )

    def rest(self) -> None:
        """Do nothing: nothing is kept between operations."""

    def close(self) -> None:
        """Do nothing: every session ends with its operation."""


def _check_engine(transform: TransformSql) -> None:
    if transform.engine.casefold() != DataFusionEngine.name:
        raise InvalidQueryError(
            f"the query asks for the engine {transform.engine!r}; this one is "
            f"{DataFusionEngine.name!r}"
        )
