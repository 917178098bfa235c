"""A query in DuckDB, into one Parquet file: `duckdb_query.py TARGET QUERY NAME=GLOB …`."""

import sys

import duckdb

target, query, *sources = sys.argv[1:]
connection = duckdb.connect()
connection.execute("SET threads = 2")
connection.execute("SET TimeZone = 'UTC'")
for source in sources:
    name, _, pattern = source.partition("=")
    read = connection.read_csv if pattern.endswith(".csv") else connection.read_parquet
    read(pattern).create_view(name)
connection.sql(query).write_parquet(target, compression="snappy")
