"""Arrays of several columns, worked on in threads."""

import threading

import pyarrow as pa
import pytest

from odf.data import column_queues
from odf.data.column_queues import ColumnQueues


def threads_of_queues():
    return [t for t in threading.enumerate() if t.name.startswith("odf-column-")]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_arrays_of_a_column_stay_in_order(threads):
    seen = [[], [], []]
    queues = ColumnQueues([column.append for column in seen], threads)
    arrays = [[pa.array([row, column]) for column in range(3)] for row in range(200)]
    for row in arrays:
        queues.add(row)
    queues.finish()
    assert seen == [[row[column] for row in arrays] for column in range(3)]
    assert threads_of_queues() == []


def test_no_column_waits_for_another():
    """The first column goes on only when all of the second is done."""
    done = threading.Event()
    count = []

    def slow(_):
        assert done.wait(60)

    def quick(array):
        count.append(array)
        if len(count) == 20:
            done.set()

    queues = ColumnQueues([slow, quick], 2)
    for number in range(20):
        queues.add([pa.array([number]), pa.array([number])])
    queues.finish()
    assert len(count) == 20


def test_what_waits_is_bounded(monkeypatch):
    monkeypatch.setattr(column_queues, "_MAX_QUEUED_BYTES", 1000)
    gate = threading.Event()
    queues = ColumnQueues([lambda _: gate.wait(60)], 1)
    added = []

    def add():
        for number in range(5):
            queues.add([pa.array(range(100))])  # 800 bytes
            added.append(number)

    adder = threading.Thread(target=add)
    adder.start()
    adder.join(0.2)
    assert adder.is_alive()
    assert len(added) <= 3
    gate.set()
    adder.join(60)
    queues.finish()
    assert len(added) == 5


def test_an_error_comes_out_and_ends_the_threads():
    def fail(_):
        raise KeyError("no")

    queues = ColumnQueues([fail, lambda _: None], 2)
    queues.add([pa.array([1]), pa.array([1])])
    with pytest.raises(KeyError, match="no"):
        queues.finish()
    with pytest.raises(KeyError, match="no"):
        queues.add([pa.array([1]), pa.array([1])])
    queues.stop()
    assert threads_of_queues() == []


def test_stopping_ends_the_threads_whatever_waits():
    queues = ColumnQueues([lambda _: None] * 3, 2)
    for number in range(50):
        queues.add([pa.array([number])] * 3)
    queues.stop()
    assert threads_of_queues() == []
