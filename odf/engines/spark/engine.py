"""The Spark engine behind the host (ODF "Engine"; design §6)."""

import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import odf
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
from odf.engines.spark.ingest import ingest
from odf.engines.spark.preload import Preloader
from odf.engines.spark.provenance import derive_provenance
from odf.engines.spark.query import run
from odf.engines.spark.query.known import KnownQueries
from odf.engines.spark.session import SparkRuntime, SparkSettings
from odf.errors import InvalidQueryError
from odf.limits import MERGE_TASK_BYTES
from odf.metadata.model import DatasetVocabulary, TransformSql
from odf.protocol import MISSING_ARCHIVE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELEASE: Final = "odf-spark/1.0.0"
"""What `transform.version` pins: Java's major version, Spark, Arrow and the rules in this package.

It is a number of its own and is raised only when some result could differ.
"""


class SparkEngine:
    """An engine that reads, merges and derives with Spark (see `odf.engines.host.engine.Engine`).

    Args:
        settings: Where and how Spark runs.
        runtime: Spark with these settings, if it was launched already.
        task_bytes: Bytes of rows that one task may merge without Spark's SQL; this decides on
            speed and memory only.
    """

    name = "spark"
    release = RELEASE

    def __init__(
        self,
        settings: SparkSettings,
        runtime: SparkRuntime | None = None,
        *,
        task_bytes: int = MERGE_TASK_BYTES,
    ) -> None:
        self._runtime = runtime or SparkRuntime(settings)
        self._task_bytes = task_bytes
        self._scratch = settings.scratch
        self._known = KnownQueries()
        self._preloader = Preloader()

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of Java, Spark, Arrow and this package. Starts nothing.

        With them comes whether a class archive is missing, which makes all the difference to how
        long Java takes to start.
        """
        archive = {"archive": MISSING_ARCHIVE} if self._runtime.lacks_archive else {}
        return {
            **archive,
            "java": self._runtime.java.version,
            "spark": version("pyspark"),
            "pyarrow": version("pyarrow"),
            "odf": odf.__version__,
        }

    @property
    def operations(self) -> int:
        """One for each processor, as far as Java's heap goes."""
        return self._runtime.operations

    def warm_up(self) -> None:
        """Start Spark; its Python workers come up behind it.

        Raises:
            EngineUnavailableError: If there is no Java that fits, or Spark does not come up.
        """
        self._runtime.start()
        threading.Thread(target=self._runtime.warm_workers, daemon=True, name="warm").start()

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
        self._scratch.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(prefix="validate-", dir=self._scratch) as folder,
            self._querying(transform) as spark,
        ):
            return run.validate(
                spark, transform, inputs, vocab, Path(folder), preprocess=preprocess
            )

    def transform(self, job: TransformJob) -> Rows:
        """Run the query of a derivative dataset; see the protocol."""
        _check_engine(job.transform)
        with self._querying(job.transform) as spark:
            return run.transform(spark, job, self._known)

    def migrate(
        self,
        transform: TransformSql,
        inputs: Sequence[ValidatedInput],
        vocab: DatasetVocabulary,
        checkpoint: Path,
    ) -> Migration:
        """Say whether the state of the last step goes on with a query; see the protocol."""
        _check_engine(transform)
        self._scratch.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(prefix="migrate-", dir=self._scratch) as folder,
            self._runtime.operation() as spark,
        ):
            return run.migrate(spark, transform, inputs, vocab, checkpoint, Path(folder))

    def provenance(self, job: TransformJob) -> Provenance:
        """Say where the rows of a step come from; see the protocol."""
        _check_engine(job.transform)
        with self._runtime.operation() as spark:
            return derive_provenance(spark, job)

    def raw_query(self, transform: TransformSql, input_paths: Sequence[str], scratch: Path) -> Rows:
        """Run a query over plain Parquet files; see the protocol."""
        _check_engine(transform)
        with self._querying(transform) as spark:
            return run.raw_query(spark, transform, input_paths, scratch)

    def ingest(self, job: IngestJob, report: Reporter) -> IngestedRows:
        """Read, preprocess and merge source files; see the protocol."""
        with self._runtime.operation() as spark:
            return ingest(
                spark, job, report, cores=self._runtime.cores, task_bytes=self._task_bytes
            )

    @contextmanager
    def _querying(self, query: TransformSql) -> Iterator["SparkSession"]:
        """Give a session to a query, and have loaded meanwhile what the query needs."""
        with self._runtime.operation() as spark:
            self._preloader.begin(spark, query)
            yield spark

    def rest(self) -> None:
        """Have Java collect its garbage and shrink its heap."""
        self._runtime.rest()

    def close(self) -> None:
        """End Spark and its Java process."""
        self._runtime.close()


def _check_engine(transform: TransformSql) -> None:
    if transform.engine.casefold() != SparkEngine.name:
        raise InvalidQueryError(
            f"the query asks for the engine {transform.engine!r}; this one is {SparkEngine.name!r}"
        )
