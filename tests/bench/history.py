"""Root datasets with event times of their own, committed without an engine.

So a run of a derivative can be timed alone, and watermarks are what a figure needs them to be.
"""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from odf.clock import SystemClock
from odf.data.slices import SliceWriter, slice_schema
from odf.data.types import TIMESTAMP_MS_UTC
from odf.metadata.model import DEFAULT_VOCAB, AddData, Timestamp
from odf.repo.accept import accept_slice
from odf.workspace.workspace import Workspace
from tests.bench.datasets import new_workspace
from tests.bench.workbench import Workbench

PER_HOUR = 1_000
"""Rows in an hour of event time."""

_START_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
_STEP_MS = 3_600_000 // PER_HOUR
_BATCH_ROWS = 200_000
_PRIME = 2_147_483_647
"""Much more than there are keys, so they come in no order, and each equally often."""

SCHEMA = pa.schema([("event_time", TIMESTAMP_MS_UTC), ("k", pa.int64()), ("v", pa.int64())])
_MANIFEST = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch:
        kind: FilesGlob
        path: never/*.csv
      read:
        kind: Csv
        header: true
        schema:
          - event_time TIMESTAMP
          - k BIGINT
          - v BIGINT
      merge:
        kind: Append
"""


def history_manifest(name: str) -> str:
    """Return the manifest of a dataset that rows are committed to."""
    return _MANIFEST.format(name=name)


class History:
    """A root dataset whose rows come at one each 3.6 seconds of event time.

    Args:
        bench: Where slices are made.
        root: The workspace.
        name: The dataset, made of `history_manifest`.
        keys: How many different keys there are.
        lag: How many rows the watermark stays behind the newest.
    """

    def __init__(self, bench: Workbench, root: Path, name: str, *, keys: int, lag: int) -> None:
        self._bench = bench
        self._handle = Workspace.find(root).resolve(name)
        self._keys = keys
        self._lag = lag
        self.rows = 0

    @property
    def slices(self) -> Path:
        """The folder of its slices."""
        return self._handle.path / "data"

    def add(self, rows: int) -> None:
        """Commit so many new rows, as one slice and one block."""
        dataset = self._handle.dataset
        now = Timestamp.from_datetime(SystemClock().now())
        state = dataset.state()
        path = self._bench.fresh("slice")
        with SliceWriter(path, slice_schema(SCHEMA, DEFAULT_VOCAB)) as writer:
            for start in range(self.rows, self.rows + rows, _BATCH_ROWS):
                count = min(_BATCH_ROWS, self.rows + rows - start)
                writer.write(self._batch(start, count, state.next_offset - self.rows, now))
        accepted = accept_slice(path, state, now)
        self.rows += rows
        watermark = _time_ms(max(self.rows - 1 - self._lag, 0))
        event = AddData(
            prev_offset=state.last_offset,
            new_data=accepted.data,
            new_watermark=Timestamp.from_epoch_ms(watermark),
        )
        first = [accepted.schema_event] if accepted.schema_event is not None else []
        dataset.commit(
            [*first, event],
            expected_head=state.head,
            system_time=now,
            objects=[accepted.staged],
        )

    def _batch(self, start: int, count: int, shift: int, now: Timestamp) -> pa.Table:
        numbers = pa.array(range(start, start + count), pa.int64())
        times = pc.add(pc.multiply(numbers, _STEP_MS), _START_MS)
        keys = [number * _PRIME % self._keys for number in range(start, start + count)]
        return pa.table(
            [
                pc.add(numbers, shift),
                pa.repeat(pa.scalar(0, pa.int32()), count),
                pa.repeat(pa.scalar(now.epoch_ms, TIMESTAMP_MS_UTC), count),
                pc.cast(times, TIMESTAMP_MS_UTC),
                pa.array(keys, pa.int64()),
                pc.subtract(pc.multiply(numbers, 7), 3),
            ],
            schema=slice_schema(SCHEMA, DEFAULT_VOCAB),
        )


def with_histories(
    bench: Workbench, root: Path, *names: str, keys: int, lag: int, rows: int
) -> list["History"]:
    """Make a workspace with such datasets, each with a first slice."""
    new_workspace(bench, root, *(history_manifest(name) for name in names))
    found = [History(bench, root, name, keys=keys, lag=lag) for name in names]
    for history in found:
        history.add(rows)
    return found


def _time_ms(number: int) -> int:
    return _START_MS + number * _STEP_MS
