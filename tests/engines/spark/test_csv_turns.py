"""Tasks that read ahead of whoever takes their parts."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from odf.engines.spark.readers.csv_turns import Turns

AHEAD = 3
AT_ONCE = 60.0
"""What must not be waited for, on a machine that is busy with other things."""

LOOKS = 0.1
"""In which a task looks many times."""


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that go on do so because something happened, not because time went by."""
    monkeypatch.setattr("odf.engines.spark.readers.csv_turns._PATIENCE_SECONDS", 2 * AT_ONCE)


def waiting(turns: Turns, index: int) -> threading.Thread:
    """Have a task wait for its turn."""
    task = threading.Thread(target=turns.wait, args=(index,), daemon=True)
    task.start()
    return task


def is_over(task: threading.Thread, seconds: float) -> bool:
    task.join(seconds)
    return not task.is_alive()


@pytest.mark.usefixtures("patient")
def test_the_first_parts_are_begun_at_once(tmp_path: Path) -> None:
    turns = Turns(str(tmp_path), AHEAD)
    assert all(is_over(waiting(turns, index), AT_ONCE) for index in range(AHEAD))


@pytest.mark.usefixtures("patient")
def test_a_part_that_is_taken_lets_the_next_one_begin(tmp_path: Path) -> None:
    turns = Turns(str(tmp_path), AHEAD)
    tasks = [waiting(turns, AHEAD), waiting(turns, AHEAD + 1)]
    assert not is_over(tasks[0], LOOKS)
    turns.take()
    assert is_over(tasks[0], AT_ONCE)
    assert not is_over(tasks[1], LOOKS)
    turns.take()
    assert is_over(tasks[1], AT_ONCE)


@pytest.mark.parametrize("mark", [Turns.give_up, Turns.stop], ids=["given up", "stopped"])
@pytest.mark.usefixtures("patient")
def test_nobody_waits_when_nothing_more_is_taken(
    mark: Callable[[Turns], None], tmp_path: Path
) -> None:
    turns = Turns(str(tmp_path), AHEAD)
    task = waiting(turns, 100)
    assert not is_over(task, LOOKS)
    mark(turns)
    assert is_over(task, AT_ONCE)
    assert turns.is_stopped == (mark is Turns.stop)


def test_waiting_ends_by_itself(tmp_path: Path) -> None:
    # Else a part that has to be read once more might find all places taken by those who wait.
    started = time.monotonic()
    Turns(str(tmp_path), AHEAD).wait(100)
    assert time.monotonic() - started > 0.5


@pytest.mark.usefixtures("patient")
def test_any_number_may_be_ahead(tmp_path: Path) -> None:
    assert is_over(waiting(Turns(str(tmp_path), 0), 100), AT_ONCE)


def test_nothing_is_left(tmp_path: Path) -> None:
    turns = Turns(str(tmp_path), AHEAD)
    turns.take()
    turns.give_up()
    turns.clear()
    turns.clear()
    assert not list(tmp_path.iterdir())
