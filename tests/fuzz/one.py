"""Fuzzes one target in this process; started by `tests.fuzz`. The options are libFuzzer's."""

import sys

import atheris

from tests.fuzz.targets import TARGETS


def main() -> None:
    """Instrument what the target imports, then feed it until the runs are used up."""
    name, *options = sys.argv[1:]
    target = TARGETS[name]
    with atheris.instrument_imports(include=["odf"]):
        for seed in target.seeds():
            target.run(seed)
    atheris.Setup([sys.argv[0], *options], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
