"""What a slice is: column types, the logical hash, slice files, and the rows of a dataset.

`types` says which types columns have and what they are in DDL, Arrow and Spark; `digest` computes
the logical hash; `slices` writes slice files and inspects them; `projection` reads rows back.
`ddl` and `datatypes` need no pyarrow, everything else does. Knows Arrow and Parquet, not Spark.
"""
