"""Spark's own way from CSV to Parquet: `spark_convert.py JAVA CSV DDL TARGET [QUERY]`."""

import json
import sys
import time

import stock_spark  # type: ignore[import-not-found]  # beside this script
from pyspark.sql import SparkSession

stock_spark.start(sys.argv[1])
spark = SparkSession.builder.getOrCreate()
started = time.perf_counter()
rows = spark.read.csv(sys.argv[2], header=True, schema=sys.argv[3])
if len(sys.argv) > 5:
    rows.createOrReplaceTempView("input")
    rows = spark.sql(sys.argv[5])
rows.write.parquet(sys.argv[4])
sys.stdout.write(json.dumps({"seconds": time.perf_counter() - started}) + "\n")
spark.stop()
