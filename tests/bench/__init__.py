"""The benchmark program: `python -m tests.bench` (see `docs/perf.md` for what it prints)."""
