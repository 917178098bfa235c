"""Rows of large CSV files while their tail is still being read.

Tasks write a part for each range and give it its name when it is whole; parts are taken in the
order of the ranges, whichever is ready first, and removed. So what comes after (the slice file)
is made beside the reading, and no part is written for keeps.
"""

import threading
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from odf.engines.spark.readers.csv import CsvSource, check_cuts
from odf.engines.spark.readers.csv_errors import refuse_bad_rows
from odf.engines.spark.readers.csv_task import CsvTask, RangeResult, read_ranges
from odf.engines.spark.readers.csv_turns import Turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_SECONDS: Final = 0.005
"""How often is looked whether the next part is there; a part takes a hundred times as long."""

_READY: Final = 3
"""How many parts may wait to be taken, beside those that are being read."""


class CsvStream:
    """The rows of some files, read once and in order.

    Args:
        spark: The session whose tasks read.
        source: What to read.
        scratch: Folder for the parts; made here.
    """

    def __init__(self, spark: "SparkSession", source: CsvSource, scratch: Path) -> None:
        self._spark = spark
        self._source = source
        self._scratch = scratch
        self._done = threading.Event()
        self._failure: BaseException | None = None
        self._results: list[RangeResult] = []

    @property
    def cut(self) -> list[str]:
        """Columns whose times had finer digits than a slice keeps; known after the last row."""
        positions = sorted({position for result in self._results for position in result.cut})
        return [self._source.columns[position].name for position in positions]

    def batches(self) -> Generator[pa.RecordBatch]:
        """Read the rows, with times as a slice has them.

        Raises:
            BadInputError: Some field or record is bad; raised after the last good row.
            CutInsideQuotes: The files have to be read without cuts; raised likewise.
        """
        self._scratch.mkdir()
        turns = Turns(str(self._scratch), self._ahead())
        tasks = [
            CsvTask(
                piece,
                self._source.form,
                self._source.columns,
                str(self._scratch / f"part-{piece.index:06}.arrow"),
                first_ordinal=0,
                turns=turns,
            )
            for piece in self._source.ranges
        ]
        if not tasks:
            return
        reading = threading.Thread(target=self._read, args=(tasks,), daemon=True, name="read")
        reading.start()
        try:
            for task in tasks:
                path = Path(task.output)
                if not self._wait_for(path):
                    break
                yield from _batches(path)
                path.unlink()
                turns.take()
        except BaseException:
            # A job that is cancelled leaves tasks behind that still write; these end by themselves.
            turns.stop()
            raise
        finally:
            reading.join()
            turns.clear()
        if self._failure is not None:
            turns.stop()
            raise self._failure
        results = sorted(self._results, key=lambda result: result.index)
        check_cuts(self._source, results)
        if not all(result.is_good for result in results):
            refuse_bad_rows(self._source, results)

    def _ahead(self) -> int:
        """Return how many parts may be begun beyond those taken; 0 if that does not matter.

        Tasks of a cluster take no processor from who takes their parts, and may see late which
        ones are taken.
        """
        context = self._spark.sparkContext
        is_here = context.master.startswith("local")
        return context.defaultParallelism + _READY if is_here else 0

    def _read(self, tasks: Sequence[CsvTask]) -> None:
        try:
            spread = self._spark.sparkContext.parallelize(tasks, len(tasks))
            self._results = spread.mapPartitions(read_ranges).collect()
        except BaseException as error:  # noqa: BLE001  # raised where the rows are taken
            self._failure = error
        finally:
            self._done.set()

    def _wait_for(self, path: Path) -> bool:
        """Wait until a part is whole; False if it will never be."""
        while not path.exists():
            if self._done.wait(_LOOK_SECONDS):
                return path.exists()
        return True


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
