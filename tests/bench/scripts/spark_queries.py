"""Queries in one session: `spark_queries.py JAVA PARQUET TARGET VIEW QUERY …`."""

import json
import sys
import time

import stock_spark  # type: ignore[import-not-found]  # beside this script
from pyspark.sql import SparkSession

java, source, target, view, *queries = sys.argv[1:]
stock_spark.start(java)
spark = SparkSession.builder.getOrCreate()
started = time.perf_counter()
for number, query in enumerate(queries):
    spark.read.parquet(source).createOrReplaceTempView(view)
    spark.sql(query).write.parquet(f"{target}/{number}")
sys.stdout.write(json.dumps({"seconds": time.perf_counter() - started}) + "\n")
spark.stop()
