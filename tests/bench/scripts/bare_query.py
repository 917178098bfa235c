"""A bare PySpark script: read a CSV, group, collect. `bare_query.py JAVA CSV DDL`."""

import json
import sys

import stock_spark  # type: ignore[import-not-found]  # beside this script
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

stock_spark.start(sys.argv[1])
spark = SparkSession.builder.getOrCreate()
rows = spark.read.csv(sys.argv[2], header=True, schema=sys.argv[3])
found = rows.groupBy("city").agg(f.count("*").alias("rows"), f.sum("quantity").alias("sum"))
sys.stdout.write(
    json.dumps({row["city"]: [row["rows"], row["sum"]] for row in found.collect()}) + "\n"
)
spark.stop()
