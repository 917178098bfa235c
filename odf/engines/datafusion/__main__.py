"""`python -m odf.engines.datafusion`: serves this engine (see `odf.engines.host.main`)."""

import argparse
import sys

from odf.engines.datafusion.engine import DataFusionEngine
from odf.engines.datafusion.session import DataFusionSettings
from odf.engines.host.main import HostOptions, serve

_DEFAULT_MEMORY = 1 << 30


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--memory", type=int, default=_DEFAULT_MEMORY, help="bytes for sorting and grouping"
    )
    parser.add_argument(
        "--slice-by-slice",
        action="store_true",
        help="run queries that need state over each step's rows alone",
    )


def _make_engine(options: HostOptions) -> DataFusionEngine:
    given = options.arguments
    return DataFusionEngine(
        DataFusionSettings(
            scratch=options.output_folder / "datafusion",
            memory=given.memory,
            slice_by_slice=given.slice_by_slice,
        )
    )


if __name__ == "__main__":
    sys.exit(serve(_make_engine, sys.argv[1:], add_options=_add_options))
