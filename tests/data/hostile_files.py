"""Files that ask a Parquet library for more than a machine has."""

import pyarrow as pa
import pyarrow.parquet as pq


def write_list_bomb(path, copies=3_000):
    """Write some hundred bytes that stand for one row with gigabytes of text.

    A text of a megabyte is in the dictionary once, compressed, and a list says it many times.
    """
    word = pa.array(["x" * (1 << 20)])
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * copies, pa.int32()), word)
    moment = pa.array([0], pa.timestamp("ms", "UTC"))
    columns = {
        "offset": pa.array([0], pa.int64()),
        "op": pa.array([0], pa.int32()),
        "system_time": moment,
        "event_time": moment,
        "texts": pa.ListArray.from_arrays(pa.array([0, copies], pa.int32()), texts),
    }
    options = {"compression": "zstd", "store_schema": False, "dictionary_pagesize_limit": 1 << 22}
    pq.write_table(pa.table(columns), path, **options)
    assert path.stat().st_size < 4096
    return path
