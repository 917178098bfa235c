"""DuckDB's way from CSV to one Parquet file: `duckdb_convert.py CSV TARGET NAME TYPE …`."""

import json
import sys
import time

import duckdb

csv, target, *columns = sys.argv[1:]
types = dict(zip(columns[::2], columns[1::2], strict=True))
started = time.perf_counter()
connection = duckdb.connect()
connection.execute("SET threads = 2")
rows = connection.read_csv(csv, header=True, columns=types)
rows.write_parquet(target, compression="snappy")
sys.stdout.write(json.dumps({"seconds": time.perf_counter() - started}) + "\n")
