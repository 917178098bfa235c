"""`Mqtt` sources: messages of a broker, one payload a record (ingest.md §4, ODF 0.35).

The broker keeps what is published while nobody pulls: the client comes back to its session by
name. Messages are written to a spool file and acknowledged after they are committed, so what was
received and not committed comes again. That is delivery at least once. `ExactlyOnce` is
subscribed to as `AtLeastOnce`, because the handshake of quality 2 would have the broker forget a
message before it is committed. Messages of `AtMostOnce` cannot be acknowledged at all.

Brokers send only so many messages ahead of their acknowledgement. So a batch that ends because
nothing more came may still have more behind it: the next batch, on a new connection, tells.
"""

import hashlib
from collections.abc import Mapping

from odf import limits
from odf.errors import BadInputError, TransportError
from odf.metadata.model import FetchStepMqtt, MqttQos

from .base import FetchContext, Fetched, Unchanged
from .extras import need
from .mqtt_session import KIND, MqttSession, MqttSource, VersionRefusedError
from .spool import remove_spools
from .templates import Expanded, Masker

_MAX_PORT = 65535
_QOS = {MqttQos.AT_MOST_ONCE: 0, MqttQos.AT_LEAST_ONCE: 1, MqttQos.EXACTLY_ONCE: 1}


def fetch_mqtt(
    step: FetchStepMqtt, texts: Mapping[str, Expanded], ctx: FetchContext
) -> Fetched | Unchanged:
    """Take messages until a batch is full or none come for a while.

    Args:
        step: The fetch step.
        texts: Its user name and password, expanded.
        ctx: Where, when and with whose leave.

    Raises:
        AuthError: The broker does not accept the user, or the subscription.
        BadInputError: The step is not one that a broker can serve.
        TransportError: The broker cannot be reached, or the connection broke.
    """
    need("mqtt", "paho.mqtt.client", "fetch kind Mqtt")
    source = _source(step, texts, ctx)
    remove_spools(ctx.cache_dir, KIND)
    session = _open(source)
    try:
        batch = session.collect()
    except BaseException:
        session.close()
        raise
    if not batch.records:
        # Empty messages have nothing to commit, but must not come again for ever.
        warnings = session.acknowledge()
        session.close()
        batch.path.unlink(missing_ok=True)
        return Unchanged(f"{source.shown} has no new messages", warnings)
    return Fetched(
        path=batch.path,
        name=source.shown,
        owned=True,
        source_state=None,
        event_time=None,
        has_more=batch.may_have_more and ctx.taken + 1 < limits.MQTT_BATCHES,
        size=batch.size,
        warnings=session.warnings(),
        receipt=session,
    )


def check_address(step: FetchStepMqtt) -> str:
    """Make sure that a step names a broker and topics; return the broker as messages have it.

    Raises:
        BadInputError: It does not.
    """
    shown = f"mqtt://{step.host}:{step.port}"
    if not step.host or not 0 < step.port <= _MAX_PORT:
        raise BadInputError(
            f"{shown}: this is no address of a broker",
            reason="bad_url",
            hint="check `host` and `port` of the fetch step",
        )
    if not step.topics:
        raise BadInputError(
            f"{shown}: the source names no topics",
            reason="bad_topic",
            hint="name at least one: topics: [{path: sensors/#, qos: AtLeastOnce}]",
        )
    return shown


def _source(step: FetchStepMqtt, texts: Mapping[str, Expanded], ctx: FetchContext) -> MqttSource:
    shown = check_address(step)
    topics = {topic.path: _QOS[topic.qos or MqttQos.AT_MOST_ONCE] for topic in step.topics}
    # Strict brokers take 23 letters and digits at most.
    name = "odf" + hashlib.sha256(ctx.dataset.encode()).hexdigest()[:20]
    username, password = texts.get("username"), texts.get("password")
    secrets = [*(username.secrets if username else ()), *(password.secrets if password else ())]
    if password is not None:
        secrets.append(password.text)
    return MqttSource(
        step,
        shown,
        name,
        username.text if username else None,
        password.text if password else None,
        tuple(topics.items()),
        Masker(secrets),
        ctx,
    )


def _open(source: MqttSource) -> MqttSession:
    """Connect, in version 5 of the protocol if the broker speaks it.

    It lets a client say how many messages it takes ahead of their acknowledgement.
    """
    for version in (5, 4):
        session = MqttSession(source, version=version)
        try:
            session.connect()
        except VersionRefusedError:
            session.discard()
        except BaseException:
            session.discard()
            raise
        else:
            return session
    raise TransportError(
        f"{source.shown}: the broker hangs up", hint="it must speak MQTT 3.1.1 or 5"
    )
