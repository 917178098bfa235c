"""A small, deterministic sample of what `make fuzz` does at length, without atheris."""

import random
import zlib
from collections.abc import Iterator

import pytest

from tests.fuzz.targets import TARGETS, Target

INPUTS = 1500


@pytest.mark.parametrize("name", TARGETS)
def test_any_input_is_a_value_or_an_error_of_ours(name):
    target = TARGETS[name]
    seeds = target.seeds()
    assert len(seeds) >= 2
    for seed in seeds:
        target.run(seed)
    for data in mutants(target, seeds, random.Random(zlib.crc32(name.encode()))):
        try:
            target.run(data)
        except Exception as error:
            raise AssertionError(f"{name}: {data!r}") from error


def mutants(target: Target, seeds: list[bytes], dice: random.Random) -> Iterator[bytes]:
    """Make inputs: seeds with a few bytes changed, cut, doubled, joined or replaced by words."""
    for _ in range(INPUTS):
        data = bytearray(dice.choice(seeds))
        for _ in range(dice.randint(1, 4)):
            at = dice.randint(0, len(data))
            match dice.randrange(6):
                case 0 if at < len(data):
                    data[at] ^= 1 << dice.randrange(8)
                case 1 if at < len(data):
                    data[at] = dice.randrange(256)
                case 2:
                    del data[at : at + dice.randint(1, 8)]
                case 3:
                    data[at:at] = dice.choice(target.words)
                case 4:
                    end = dice.randint(at, len(data))
                    data[at:at] = data[at:end]
                case _:
                    other = dice.choice(seeds)
                    data[at:] = other[dice.randint(0, len(other)) :]
        yield bytes(data[:4096])
