"""`python -m tests.bench`: see `docs/perf.md`."""

import sys

from tests.bench.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
