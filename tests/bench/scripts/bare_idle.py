"""A bare PySpark session that has nothing to do any more: `bare_idle.py JAVA CSV DDL`."""

import sys

import stock_spark  # type: ignore[import-not-found]  # beside this script
from pyspark.sql import SparkSession

stock_spark.start(sys.argv[1])
spark = SparkSession.builder.getOrCreate()
spark.read.csv(sys.argv[2], header=True, schema=sys.argv[3]).groupBy("city").count().collect()
sys.stdout.write("idle\n")
sys.stdout.flush()
sys.stdin.read()
spark.stop()
