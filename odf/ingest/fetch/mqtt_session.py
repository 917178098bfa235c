"""A session with an MQTT broker: the network thread takes messages in, another one waits for it."""

from __future__ import annotations

import functools
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from odf import limits
from odf.errors import AuthError, BadInputError, OdfError, TransportError
from odf.metadata.model import FetchStepMqtt

from .base import FetchContext
from .spool import new_spool
from .templates import Masker

if TYPE_CHECKING:
    from paho.mqtt.client import Client

KIND: Final = "mqtt"
"""Begins the names of this source's files in the cache."""

_V5 = 5
_SHARED = "$share/"  # begins the subscriptions that a group of clients shares
_TLS_PORT = 8883  # registered for MQTT over TLS; the manifest has no other way to say so
_V5_REFUSED = frozenset({1, 132})  # unacceptable protocol version, in the words of 3.1.1 and of 5
_CREDENTIALS_REFUSED = frozenset({4, 5, 134, 135})
_REFUSED = 128  # this and higher codes in the answer to a subscription


@dataclass(frozen=True, slots=True)
class MqttSource:
    """A broker and what to take from it.

    Attributes:
        step: The fetch step.
        shown: The broker as messages may have it.
        name: Name of the session at the broker.
        username: User name, if any.
        password: Password, if any.
        topics: Topic filters with their quality of service.
        masker: Takes the password out of what others say.
        ctx: Where, when and with whose leave.
    """

    step: FetchStepMqtt
    shown: str
    name: str
    username: str | None
    password: str | None
    topics: tuple[tuple[str, int], ...]
    masker: Masker
    ctx: FetchContext


@dataclass(frozen=True, slots=True)
class MqttBatch:
    """What came.

    Attributes:
        path: The spool file.
        records: Records in it.
        size: Bytes in it.
        may_have_more: The broker may wait for acknowledgements before it sends more.
    """

    path: Path
    records: int
    size: int
    may_have_more: bool


@dataclass(slots=True)
class _Inbox:
    """What the network thread puts down for the thread that waits.

    Attributes:
        file: The spool file.
        changed: Guards all of it, and is told of every change.
        accepted: The answer to the connection: whether the session was known; None before.
        granted: Answers to the subscription, one for each topic.
        problem: What ended the connection.
        answered: The broker has read everything that was sent to it.
        closed: The batch is over: what comes now belongs to a later one.
        unacknowledged: Numbers of messages that the broker waits for.
        messages: Messages that came.
        records: Those of them that were not empty.
        size: Bytes written.
    """

    file: BinaryIO
    changed: threading.Condition = field(default_factory=threading.Condition)
    accepted: bool | None = None
    granted: list[int] | None = None
    problem: OdfError | None = None
    answered: bool = False
    closed: bool = False
    unacknowledged: list[int] = field(default_factory=list)
    messages: int = 0
    records: int = 0
    size: int = 0

    def put(self, number: int, qos: int, payload: bytes) -> None:
        """Take a message; one that comes after the batch is over is left to the next one."""
        record = as_record(payload)
        with self.changed:
            if self.closed or self.problem is not None:
                return
            try:
                self.file.write(record)
            except OSError as error:
                self.problem = TransportError(
                    f"cannot write messages: {error.strerror}", hint="is there room on the disk?"
                )
            else:
                self.messages += 1
                self.records += bool(record)
                self.size += len(record)
                self.closed = self.is_full
                if qos:
                    self.unacknowledged.append(number)
            self.changed.notify_all()

    def has_more_than(self, seen: int) -> bool:
        """Tell whether there is more than so many messages, or nothing to wait for."""
        return self.messages > seen or self.problem is not None

    @property
    def is_full(self) -> bool:
        """Tell whether the batch ends here."""
        return self.messages >= limits.MQTT_BATCH_MESSAGES or self.size >= limits.MQTT_BATCH_SIZE


def as_record(payload: bytes) -> bytes:
    """Make the record of a payload: one line, where its text allows that.

    Line breaks in JSON stand between its tokens, never inside a string: blanks mean the same, and
    the line-wise readers can read it. Other texts keep their lines.
    """
    payload = payload.strip()
    if not payload:
        return b""
    if b"\n" in payload or b"\r" in payload:
        with suppress(ValueError, RecursionError):
            json.loads(payload)
            payload = payload.replace(b"\r", b" ").replace(b"\n", b" ")
    return payload + b"\n"


class MqttSession:
    """A connection to the broker, open until its messages are committed."""

    def __init__(self, source: MqttSource, *, version: int) -> None:
        self._source = source
        self._version = version
        self._path, file = new_spool(source.ctx.cache_dir, KIND)
        self._inbox = _Inbox(file)
        self._told_to_stop = False
        self._client = self._make_client()

    # --- opening -----------------------------------------------------------------------------

    def connect(self) -> None:
        """Connect and subscribe; raises `VersionRefusedError` if another version is to be tried."""
        step = self._source.step
        options: dict[str, Any] = {}
        if self._version == _V5:
            options = {"clean_start": False, "properties": _connect_properties()}
        try:
            self._client.connect(
                step.host, step.port, keepalive=limits.MQTT_KEEPALIVE_SECONDS, **options
            )
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from None
        self._client.loop_start()
        self._wait_for_answer()
        self._subscribe(known=bool(self._inbox.accepted))

    def _wait_for_answer(self) -> None:
        inbox = self._inbox
        if self._version == _V5:
            with inbox.changed:
                inbox.changed.wait_for(
                    lambda: inbox.accepted is not None or inbox.problem is not None,
                    limits.MQTT_VERSION_SECONDS,
                )
                if inbox.accepted is None and inbox.problem is None:
                    raise VersionRefusedError("version 5 is met with silence")
        self._wait_for(lambda inbox: inbox.accepted is not None, "did not answer the connection")

    def _make_client(self) -> Client:
        from paho.mqtt.client import Client  # noqa: PLC0415 - pay for what is used
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion  # noqa: PLC0415

        old = self._version != _V5
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._source.name,
            clean_session=False if old else None,
            protocol=MQTTProtocolVersion.MQTTv311 if old else MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = limits.CONNECT_TIMEOUT
        if self._source.username is not None:
            client.username_pw_set(self._source.username, self._source.password)
        if self._source.step.port == _TLS_PORT:
            client.tls_set_context(ssl.create_default_context())
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_unsubscribe = self._on_unsubscribe
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        return client

    def _subscribe(self, *, known: bool) -> None:
        """Subscribe, unless the session has these topics already.

        Subscribing anew would bring every retained message again, with each pull.
        """
        note = self._source.ctx.cache_dir / f"{KIND}-{self._source.name}.json"
        wanted = {"broker": self._source.shown, "topics": dict(self._source.topics)}
        before = _read(note) if known else {}
        if before == wanted:
            return
        note.unlink(missing_ok=True)
        others = _topics(before) - dict(self._source.topics).keys()
        if others and before.get("broker") == self._source.shown:
            self._client.unsubscribe(sorted(others))
        try:
            self._client.subscribe(list(self._source.topics))
        except ValueError as error:
            raise BadInputError(
                f"{self._source.shown}: {error}: {', '.join(t for t, _ in self._source.topics)}",
                reason="bad_topic",
                hint="# stands alone at the end of a topic, + for one whole level",
            ) from None
        self._wait_for(lambda inbox: inbox.granted is not None, "did not answer the subscription")
        refused = [
            topic
            for (topic, _), code in zip(
                self._source.topics, self._inbox.granted or (), strict=False
            )
            if code >= _REFUSED
        ]
        if refused:
            raise AuthError(
                f"{self._source.shown}: the broker refuses to give out {', '.join(refused)}",
                hint="check the topics, and what this user may read",
            )
        note.write_text(json.dumps(wanted), encoding="utf-8")

    # --- what the network thread does --------------------------------------------------------

    def _on_connect(self, _client: Client, _data: object, flags: Any, reason: Any, *_: Any) -> None:
        code = int(reason.value)
        with self._inbox.changed:
            if code == 0:
                self._inbox.accepted = bool(flags.session_present)
            elif self._version == _V5 and code in _V5_REFUSED:
                self._inbox.problem = VersionRefusedError("version 5 is not spoken")
            elif code in _CREDENTIALS_REFUSED:
                self._inbox.problem = AuthError(
                    f"{self._source.shown}: the broker does not let us in: {reason}",
                    hint="check username and password of the fetch step and their variables",
                )
            else:
                self._inbox.problem = TransportError(
                    f"{self._source.shown}: refused: {reason}", hint="ask who runs the broker"
                )
            self._inbox.changed.notify_all()

    def _on_subscribe(self, _client: Client, _data: object, _mid: int, codes: Any, *_: Any) -> None:
        with self._inbox.changed:
            self._inbox.granted = [int(code.value) for code in codes]
            self._inbox.changed.notify_all()

    def _on_unsubscribe(self, *_: object) -> None:
        with self._inbox.changed:
            self._inbox.answered = True
            self._inbox.changed.notify_all()

    def _on_disconnect(self, *_: object) -> None:
        with self._inbox.changed:
            if self._inbox.problem is None and not self._told_to_stop:
                if self._inbox.accepted is None and self._version == _V5:
                    # Old brokers hang up on what they do not understand.
                    self._inbox.problem = VersionRefusedError("version 5 is not spoken")
                else:
                    self._inbox.problem = TransportError(
                        f"{self._source.shown}: the connection broke",
                        hint="what was not committed comes again: pull again",
                    )
            self._inbox.changed.notify_all()

    def _on_message(self, _client: Client, _data: object, message: Any) -> None:
        # A session goes on with topics of an earlier manifest until the broker forgets them.
        try:
            ours = any(_fits(topic, message.topic) for topic, _ in self._source.topics)
        except UnicodeDecodeError:  # a topic that is no text, against the protocol
            ours = False
        self._inbox.put(message.mid, message.qos, message.payload if ours else b"")

    # --- collecting --------------------------------------------------------------------------

    def collect(self) -> MqttBatch:
        """Wait for messages until the batch is full, or nothing came for a while.

        Raises:
            TransportError: The connection broke, or the messages cannot be written.
        """
        inbox = self._inbox
        with inbox.changed:
            idle = self._wait_until_idle(inbox)
            inbox.closed = True
            if inbox.problem is not None:
                raise inbox.problem
            inbox.file.close()
        stalled = idle and len(inbox.unacknowledged) >= limits.MQTT_SMALLEST_WINDOW
        self._source.ctx.report(f"{self._source.shown}: {inbox.records} messages")
        if not inbox.unacknowledged:
            self.close()
        return MqttBatch(self._path, inbox.records, inbox.size, inbox.is_full or stalled)

    def _wait_until_idle(self, inbox: _Inbox) -> bool:
        """Wait while messages come; tell whether they stopped by themselves."""
        deadline = time.monotonic() + limits.MQTT_BATCH_SECONDS
        while not inbox.closed and inbox.problem is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            seen = inbox.messages
            came = functools.partial(inbox.has_more_than, seen)
            if not inbox.changed.wait_for(came, min(limits.MQTT_IDLE_SECONDS, left)):
                return True
        return False

    def warnings(self) -> tuple[str, ...]:
        """Say once, with the first data, what cannot be kept from getting lost."""
        loose = [topic for topic, qos in self._source.topics if not qos]
        if not loose or not self._source.ctx.is_first:
            return ()
        warning = (
            f"{self._source.shown}: {', '.join(loose)} is subscribed to with qos AtMostOnce: what "
            "is published while no pull runs is lost; AtLeastOnce has the broker keep it"
        )
        return (warning,)

    # --- after the commit --------------------------------------------------------------------

    def acknowledge(self) -> tuple[str, ...]:
        """Tell the broker that the messages are committed (`Receipt`)."""
        numbers = self._inbox.unacknowledged
        if not numbers:
            return ()
        for number in numbers:
            self._client.ack(number, 1)
        # A connection that ends with unread data in it takes what was sent last along. So the
        # broker is asked something behind the acknowledgements: its answer says that it has them.
        with self._inbox.changed:
            self._inbox.answered = False
        self._client.unsubscribe(self._source.name)
        try:
            self._wait_for(lambda inbox: inbox.answered, "did not confirm the acknowledgements")
        except OdfError as problem:
            warning = (
                f"{problem.message}, before {len(numbers)} messages were acknowledged; they are "
                "committed, and may come again"
            )
            return (warning,)
        self._inbox.unacknowledged = []
        return ()

    def close(self) -> None:
        """Leave the broker (`Receipt`); what was not acknowledged comes again."""
        self._told_to_stop = True
        self._client.disconnect()
        self._client.loop_stop()
        # Only behind the end of the network thread, which writes to it.
        self._inbox.file.close()

    def discard(self) -> None:
        """Leave the broker, and nothing behind."""
        self.close()
        self._path.unlink(missing_ok=True)

    # --- waiting and errors ------------------------------------------------------------------

    def _wait_for(self, done: Callable[[_Inbox], bool], silence: str) -> None:
        inbox = self._inbox
        with inbox.changed:
            inbox.changed.wait_for(
                lambda: done(inbox) or inbox.problem is not None, limits.CONNECT_TIMEOUT
            )
            if inbox.problem is not None:
                raise inbox.problem
            if not done(inbox):
                raise TransportError(
                    f"{self._source.shown}: the broker {silence} for {limits.CONNECT_TIMEOUT:g} s",
                    hint="check that this is the port of an MQTT broker; then pull again",
                )

    def _unreachable(self, error: OSError | ValueError) -> OdfError:
        if isinstance(error, ssl.SSLError):
            return TransportError(
                f"{self._source.shown}: TLS failed: {self._source.masker.clean(str(error))}",
                hint="the certificate must be valid",
            )
        if isinstance(error, socket.gaierror):
            return TransportError(
                f"{self._source.shown}: the host name is not known",
                hint="check `host` of the fetch step",
            )
        if isinstance(error, TimeoutError):
            return TransportError(
                f"{self._source.shown}: no connection within {limits.CONNECT_TIMEOUT:g} s",
                hint="check `host` and `port`, and whether this machine reaches the broker",
            )
        said = error.strerror if isinstance(error, OSError) else str(error)
        return TransportError(
            f"{self._source.shown}: no connection: {(said or str(error)).lower()}",
            hint="check host and port; is the broker running?",
        )


class VersionRefusedError(TransportError):
    """The broker does not speak this version of the protocol."""


def _connect_properties() -> Any:
    from paho.mqtt.packettypes import PacketTypes  # noqa: PLC0415
    from paho.mqtt.properties import Properties  # noqa: PLC0415

    properties: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 0xFFFFFFFF  # never, as it always was before version 5
    properties.ReceiveMaximum = limits.MQTT_BATCH_MESSAGES
    return properties


def _fits(subscribed: str, topic: str) -> bool:
    from paho.mqtt.client import topic_matches_sub  # noqa: PLC0415 - loaded long before

    if subscribed.startswith(_SHARED):
        subscribed = subscribed.removeprefix(_SHARED).partition("/")[2]
    return bool(topic_matches_sub(subscribed, topic))


def _read(note: Path) -> dict[str, Any]:
    """Read which topics were subscribed to; nothing if it is not known."""
    try:
        found = json.loads(note.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _topics(note: dict[str, Any]) -> set[str]:
    topics = note.get("topics")
    return {str(topic) for topic in topics} if isinstance(topics, dict) else set()
