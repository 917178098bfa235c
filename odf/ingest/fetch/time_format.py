"""Times in file names: the same patterns as in columns, see `odf.data.time_format`."""

from odf.data.time_format import DEFAULT_FORMAT, compile_time, parse_time

__all__ = ["DEFAULT_FORMAT", "compile_time", "parse_time"]
