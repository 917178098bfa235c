"""What every merge strategy works with."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odf.engines.spark.merge.layout import MergeLayout, NewRows
from odf.metadata.model import Timestamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class MergeContext:
    """One merge.

    Attributes:
        spark: The session to work in.
        new: The new rows.
        layout: Their columns.
        history: All slices of the dataset in chain order.
        event_time: For rows that have none.
        scratch: Folder for temporary files.
        small: Whether new rows and history are few enough to take the result through memory.
        task_bytes: Bytes of rows that one task may merge without Spark's SQL.
    """

    spark: "SparkSession"
    new: NewRows
    layout: MergeLayout
    history: tuple[str, ...]
    event_time: Timestamp
    scratch: Path
    small: bool
    task_bytes: int = 0
