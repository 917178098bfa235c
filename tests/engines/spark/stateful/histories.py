"""Random histories of inputs, ways to group them into runs, and what is left of them in truth."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa

from odf.metadata.model import DatasetVocabulary
from tests.engines.spark.stateful.replay import MOMENT, Block, Shape

HOUR = 3_600_000
DAY = 24 * HOUR
OWN = DatasetVocabulary("nr", "what", "noted", "happened")
T = Shape(pa.schema([("event_time", MOMENT), ("k", pa.string()), ("v", pa.float64())]))
U = Shape(pa.schema([("happened", MOMENT), ("k", pa.string()), ("v", pa.float64())]), OWN)
D = Shape(pa.schema([("event_time", pa.date32()), ("k", pa.string()), ("v", pa.float64())]))
History = list[tuple[int, Block]]


def history(random: Random, shapes: dict[str, Shape], blocks: int = 12) -> History:
    """Blocks of all inputs: late rows, ties, nulls, corrections, idle inputs, years before 1970."""
    made: History = []
    time = 1_000
    height = dict.fromkeys(shapes, -2 * DAY)
    live: dict[str, list[dict[str, Any]]] = {alias: [] for alias in shapes}
    for _ in range(blocks):
        alias = random.choice(list(shapes))
        # Blocks of different inputs may have the same time, and of one input in a millisecond.
        time += random.choice((0, 1, 5))
        rows = [
            row
            for _ in range(random.randint(0, 9))
            for row in _rows(random, shapes[alias], live[alias], height[alias])
        ]
        watermark = None
        if random.random() < 0.7:
            height[alias] += random.choice((0, 3, 9, 20, 30)) * HOUR
            watermark = height[alias] - random.choice((0, 0, 0, 40)) * HOUR
        made.append((time, Block(alias, tuple(rows), watermark)))
    if random.random() < 0.7:
        made += [(time + 9, Block(alias, (), 2 * DAY)) for alias in shapes]
    return made


def _rows(
    random: Random, shape: Shape, live: list[dict[str, Any]], height: int
) -> list[dict[str, Any]]:
    event_time = shape.vocab.event_time_column
    chance = random.random()
    if live and chance < 0.12:
        return [{**live.pop(random.randrange(len(live))), "op": 1}]
    if live and chance < 0.2:
        old = live.pop(random.randrange(len(live)))
        new = {**old, "op": 0, "v": random.randint(-9, 99) * 0.1}
        live.append(new)
        return [{**old, "op": 2}, {**new, "op": 3}]
    if chance < 0.23:
        # A retraction of what was never there.
        return [{event_time: _moment(random, shape, height), "k": "z", "v": 0.5, "op": 1}]
    row = {
        event_time: None if chance > 0.98 else _moment(random, shape, height),
        "k": random.choice(("a", "b", "ü", None)),
        "v": random.choice((None, *[random.randint(-9, 99) * 0.1 for _ in range(8)])),
        "op": 0,
    }
    live.append(row)
    return [row]


def _moment(random: Random, shape: Shape, height: int) -> int:
    at = height + random.randint(-16, 80) * (HOUR // 2)
    is_date = pa.types.is_date(shape.columns.field(shape.vocab.event_time_column).type)
    return at // DAY if is_date else at


def groupings(random: Random, blocks: History) -> list[History]:
    """Put blocks into runs; some runs have none.

    Blocks of one millisecond stay together: as rows know no more than that, they are one block.
    """
    runs: list[History] = [[]]
    last = None
    for time, block in blocks:
        while time != last and random.random() < 0.3:
            runs.append([])
        runs[-1].append((time, block))
        last = time
    return runs


def timely(shape: Shape, alias: str, blocks: Sequence[tuple[int, Block]]) -> list[dict[str, Any]]:
    """The rows of an input that are neither late nor retracted, as the rules say it."""
    event_time = shape.vocab.event_time_column
    is_date = pa.types.is_date(shape.columns.field(event_time).type)
    own = [(time, block) for time, block in blocks if block.alias == alias]
    found: list[dict[str, Any]] = []
    offset = 0
    for time, block in own:
        marks = [b.watermark for at, b in own if at < time and b.watermark is not None]
        for row in block.rows:
            offset += 1
            moment = row[event_time]
            if moment is None or (marks and moment * (DAY if is_date else 1) <= max(marks)):
                continue
            values = {name: row[name] for name in shape.columns.names}
            if row["op"] in (0, 3):
                found.append({"nr": offset, **values})
            else:
                same = next(
                    (n for n, r in enumerate(found) if {**r, "nr": 0} == {"nr": 0, **values}), None
                )
                if same is not None:
                    del found[same]
    return found


def watermark(shapes: Sequence[str], blocks: History) -> int | None:
    """The event time up to which all inputs are there."""
    highest = [
        max((b.watermark for _, b in blocks if b.alias == alias and b.watermark is not None),
            default=None)
        for alias in shapes
    ]  # fmt: skip
    known = [mark for mark in highest if mark is not None]
    return min(known) if len(known) == len(highest) else None
