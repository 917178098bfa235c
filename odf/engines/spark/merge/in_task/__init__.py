"""Merging with Arrow inside one Spark task, for rounds of new data that fit into memory.

Most rounds are small, and for these Spark's planner, code generator and shuffle cost many times
what the work itself does. The rules are those of the strategies in `odf.engines.spark.merge`,
which go the way over Spark's SQL with everything else; a test holds one to the other.
"""
