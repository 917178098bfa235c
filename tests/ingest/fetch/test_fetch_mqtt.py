"""`Mqtt` sources against a real broker: nothing is lost, nothing is acknowledged too early."""

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")

from odf import limits
from odf.errors import AuthError, BadInputError, TransportError
from odf.ingest.fetch import Fetched, Unchanged, fetch, template_variables
from odf.ingest.fetch.mqtt_session import as_record
from odf.metadata.model import FetchStepMqtt, MqttQos, MqttTopicSubscription
from tests.conftest import PROJECT
from tests.ingest.fetch.brokers import Broker, OldBroker, free_port, run_broker, serve
from tests.ingest.fetch.conftest import Around


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with run_broker(tmp_path / "broker") as running:
        yield running


def step(
    port: int, topic: str = "a/#", qos: MqttQos | None = MqttQos.AT_LEAST_ONCE
) -> FetchStepMqtt:
    return FetchStepMqtt(host="127.0.0.1", port=port, topics=(MqttTopicSubscription(topic, qos),))


def take(around: Around, source: FetchStepMqtt, **changes: object) -> Fetched | Unchanged:
    return fetch(source, None, around.ctx(dataset="did:odf:one", **changes))


def records(found: Fetched | Unchanged) -> list[object]:
    assert isinstance(found, Fetched), found
    return [json.loads(line) for line in found.path.read_bytes().splitlines()]


def subscribed(around: Around, source: FetchStepMqtt) -> FetchStepMqtt:
    """Pull once, so that the broker knows the session."""
    assert isinstance(take(around, source), Unchanged)
    return source


@pytest.mark.parametrize("qos", [MqttQos.AT_LEAST_ONCE, MqttQos.EXACTLY_ONCE])
def test_what_was_not_committed_comes_again(broker: Broker, around: Around, qos: MqttQos) -> None:
    source = subscribed(around, step(broker.port, qos=qos))
    broker.publish("a/b", b'{"n": 1}', b'{"n": 2}', qos=2)
    first = take(around, source)
    assert records(first) == [{"n": 1}, {"n": 2}]
    assert isinstance(first, Fetched)
    first.discard()  # as after a failure
    broker.publish("a/c", b'{"n": 3}')
    second = take(around, source)
    assert records(second) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert isinstance(second, Fetched)
    assert second.settle() == ()
    second.discard()
    assert isinstance(take(around, source), Unchanged)
    assert not [name for name in around.leftovers if name.endswith(".data")]


def test_a_killed_pull_loses_nothing(broker: Broker, around: Around) -> None:
    """Killed when the messages are on the disk, and not committed."""
    source = subscribed(around, step(broker.port))
    broker.publish("a/b", b'{"n": 1}', b'{"n": 2}')
    script = f"""
import os, signal, sys
from pathlib import Path
from tests.ingest.fetch.test_fetch_mqtt import Around, records, step, take
found = take(Around(Path(sys.argv[1])), step({broker.port}))
assert len(records(found)) == 2
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(around.root)], cwd=PROJECT, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert [name for name in around.leftovers if name.endswith(".data")]
    found = take(around, source)
    assert records(found) == [{"n": 1}, {"n": 2}]
    assert len([name for name in around.leftovers if name.endswith(".data")]) == 1
    assert isinstance(found, Fetched)
    found.discard()


def test_acknowledged_only_when_told(broker: Broker, around: Around) -> None:
    source = subscribed(around, step(broker.port))
    broker.publish("a/b", *(b"%d" % n for n in range(5)))
    found = take(around, source)
    assert isinstance(found, Fetched)
    assert not [line for line in broker.log if "PUBACK from odf" in line]
    found.settle()
    found.discard()
    assert isinstance(take(around, source), Unchanged)  # so the broker has read what came before
    assert len([line for line in broker.log if "PUBACK from odf" in line]) == 5


def test_batches(broker: Broker, around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MQTT_BATCH_MESSAGES", 40)
    source = subscribed(around, step(broker.port))
    broker.publish("a/b", *(b"%d" % n for n in range(100)))
    came: list[object] = []
    more = []
    while isinstance(found := take(around, source, taken=len(more)), Fetched):
        came += records(found)
        more.append(found.has_more)
        found.settle()
        found.discard()
    assert came == list(range(100))
    assert more == [True, True, True]  # the last one had 20, and a broker may hold back at 10


def test_a_pull_ends_where_messages_never_do(
    broker: Broker, around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MQTT_BATCH_MESSAGES", 10)
    monkeypatch.setattr(limits, "MQTT_BATCHES", 2)
    source = subscribed(around, step(broker.port))
    broker.publish("a/b", *(b"%d" % n for n in range(30)))
    for taken, more in ((0, True), (1, False)):
        found = take(around, source, taken=taken)
        assert isinstance(found, Fetched)
        assert found.has_more is more
        found.settle()
        found.discard()


def test_a_broker_that_speaks_only_the_older_version(broker: Broker, around: Around) -> None:
    with OldBroker(broker.port) as old, serve(old):
        source = subscribed(around, step(old.port))
        broker.publish("a/b", *(b"%d" % n for n in range(30)))
        came: list[object] = []
        while isinstance(found := take(around, source), Fetched):
            came += records(found)
            found.settle()
            found.discard()
        # This broker gives such a client 20 messages at a time.
        assert came == list(range(30))
        assert set(old.versions) == {5, 4}


def test_a_line_that_is_cut_before_the_commit(broker: Broker, around: Around) -> None:
    with OldBroker(broker.port) as old, serve(old):
        source = subscribed(around, step(old.port))
        broker.publish("a/b", b"1", b"2")
        found = take(around, source)
        assert isinstance(found, Fetched)
        old.cut()
        inbox = found.receipt._inbox  # type: ignore[union-attr]
        with inbox.changed:
            assert inbox.changed.wait_for(lambda: inbox.problem is not None, 60)
        (warning,) = found.settle()
        assert "the connection broke, before 2 messages were acknowledged" in warning
        assert "may come again" in warning
        found.discard()
        assert records(take(around, source)) == [1, 2]


def test_retained_messages_come_once(broker: Broker, around: Around) -> None:
    broker.publish("a/state", b'"on"', retain=True)
    source = step(broker.port)
    found = take(around, source)
    assert records(found) == ["on"]
    assert isinstance(found, Fetched)
    found.settle()
    found.discard()
    assert isinstance(take(around, source), Unchanged)


def test_other_topics_are_subscribed_to_when_the_source_changes(
    broker: Broker, around: Around
) -> None:
    subscribed(around, step(broker.port, "a/#"))
    source = subscribed(around, step(broker.port, "b/#"))
    broker.publish("a/1", b"0")
    broker.publish("b/1", b"1")
    found = take(around, source)
    assert records(found) == [1]
    assert isinstance(found, Fetched)
    found.discard()
    assert any("UNSUBSCRIBE from odf" in line for line in broker.log)


def test_topics_of_an_earlier_source_are_not_taken_for_its_own(
    broker: Broker, around: Around
) -> None:
    """Also where nobody knows any more what the session was subscribed to."""
    subscribed(around, step(broker.port, "a/#"))
    shutil.rmtree(around.root / ".odf")
    source = step(broker.port, "b/#")
    broker.publish("a/1", b"0", b"00")
    broker.publish("b/1", b"1", retain=True)
    found = take(around, source)
    assert records(found) == [1]
    assert isinstance(found, Fetched)
    found.settle()
    found.discard()
    assert isinstance(take(around, source), Unchanged)


def test_a_subscription_that_is_shared(broker: Broker, around: Around) -> None:
    source = subscribed(around, step(broker.port, "$share/all/a/#"))
    broker.publish("a/1", b"1")
    found = take(around, source)
    assert records(found) == [1]
    assert isinstance(found, Fetched)
    found.discard()


def test_empty_messages_are_no_data_and_do_not_come_again(broker: Broker, around: Around) -> None:
    source = subscribed(around, step(broker.port))
    broker.publish("a/b", b"", b"  ")
    assert isinstance(take(around, source), Unchanged)
    broker.publish("a/b", b"1")
    assert records(take(around, source)) == [1]


def test_the_lowest_quality_is_warned_of_once(broker: Broker, around: Around) -> None:
    broker.publish("a/b", b"1", retain=True)
    source = step(broker.port, qos=None)
    first = take(around, source)
    assert isinstance(first, Fetched)
    assert "AtMostOnce: what is published while no pull runs is lost" in first.warnings[0]
    first.discard()
    again = take(around, step(broker.port, "a/b", None), is_first=False)
    assert isinstance(again, Fetched)
    assert again.warnings == ()
    again.discard()


def test_credentials(tmp_path: Path, around: Around) -> None:
    passwords = tmp_path / "passwords"
    done = (
        subprocess.run(
            ["mosquitto_passwd", "-c", "-b", str(passwords), "ann", "S3cret"], check=False
        )
        if passwords.parent.is_dir() and _has("mosquitto_passwd")
        else None
    )
    if done is None:
        pytest.skip("no MQTT broker here: apt-get install mosquitto")
    rules = tmp_path / "rules"
    rules.write_text("user ann\ntopic read a/#\ntopic write a/#\n")
    for file in (passwords, rules):
        file.chmod(0o644)
    source = replace(step(0), username="ann", password="${{ env.PASS }}")
    assert template_variables(source) == ("PASS",)
    settings = (f"password_file {passwords}", f"acl_file {rules}", "user root")
    with run_broker(tmp_path / "broker", *settings) as broker:
        source = replace(source, port=broker.port)
        right, wrong = {"PASS": "S3cret"}, {"PASS": "wr0ng"}
        assert isinstance(take(around, source, environment=right), Unchanged)
        broker.publish("a/b", b"1", username="ann", password="S3cret")
        assert records(take(around, source, environment=right)) == [1]
        with pytest.raises(AuthError, match="does not let us in") as refused:
            take(around, source, environment=wrong)
        assert "wr0ng" not in str(refused.value) + str(refused.value.hint)
        with pytest.raises(AuthError, match="does not let us in"):
            take(around, replace(source, username=None, password=None))
    with pytest.raises(BadInputError, match="PASS"):
        take(around, source)


# The library lets go of its socket without closing it when the handshake fails.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_over_tls(
    tmp_path: Path, around: Around, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the port that is registered for it, which somebody else may use here."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", 8883))
        except OSError:
            pytest.skip("port 8883 is in use here")
    readable = tmp_path / "server.pem"
    readable.write_bytes(certificate.read_bytes())
    settings = (f"certfile {readable}", f"keyfile {readable}", "user root")
    with run_broker(tmp_path / "broker", *settings, port=8883):
        with pytest.raises(TransportError, match=r"TLS failed: .*CERTIFICATE_VERIFY_FAILED"):
            take(around, step(8883))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert isinstance(take(around, step(8883)), Unchanged)


def _has(program: str) -> bool:
    return shutil.which(program) is not None


def test_nobody_there(around: Around) -> None:
    with pytest.raises(TransportError, match=r"mqtt://127\.0\.0\.1:\d+: no connection: .*refused"):
        take(around, step(free_port()))
    with pytest.raises(TransportError, match="the host name is not known"):
        take(around, replace(step(1883), host="nowhere.invalid"))
    assert around.leftovers == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"host": ""}, "no address of a broker"),
        ({"port": 70000}, "no address of a broker"),
        ({"topics": ()}, "names no topics"),
    ],
)
def test_steps_that_can_never_work(changes: dict[str, object], said: str, around: Around) -> None:
    with pytest.raises(BadInputError, match=said):
        take(around, replace(step(1883), **changes))  # type: ignore[arg-type]


def test_a_topic_that_is_none(broker: Broker, around: Around) -> None:
    with pytest.raises(BadInputError, match="a/#/b"):
        take(around, step(broker.port, "a/#/b"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    st.sampled_from([None, 0, 2]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_json_becomes_one_line_of_the_same_meaning(
    value: object, indent: int | None, line_break: str
) -> None:
    text = json.dumps(value, indent=indent).replace("\n", line_break)
    record = as_record(text.encode())
    assert json.loads(record) == value
    assert record.count(b"\n") == 1
    assert b"\r" not in record


def test_other_texts_keep_their_lines() -> None:
    assert as_record(b" a,1\nb,2\n") == b"a,1\nb,2\n"
    assert as_record(b"{\n") == b"{\n"
    assert as_record(b"\xff\n\xfe") == b"\xff\n\xfe\n"
    # Deeper than a reader goes: an error here would end the thread that takes messages in.
    assert as_record(b"[\n" + b"[" * 500_000) == b"[\n" + b"[" * 500_000 + b"\n"
