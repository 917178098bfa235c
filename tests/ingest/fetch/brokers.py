"""A real MQTT broker on loopback, and a line to it that can be cut."""

import contextlib
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_V5 = 5


@dataclass
class Broker:
    """Mosquitto, with everything that it wrote to its log so far."""

    port: int
    log: list[str] = field(default_factory=list)

    def publish(
        self, topic: str, *payloads: bytes, qos: int = 1, retain: bool = False, **user: str
    ) -> None:
        """Publish messages, and wait until the broker has them."""
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        client = Client(CallbackAPIVersion.VERSION2)
        if user:
            client.username_pw_set(user["username"], user["password"])
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        for message in [client.publish(topic, p, qos=qos, retain=retain) for p in payloads]:
            message.wait_for_publish(30)
            assert message.is_published()
        client.disconnect()
        client.loop_stop()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextlib.contextmanager
def run_broker(folder: Path, *settings: str, port: int | None = None) -> Iterator[Broker]:
    """Run mosquitto with more settings than the usual ones."""
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        pytest.skip("no MQTT broker here: apt-get install mosquitto")
    folder.mkdir(parents=True, exist_ok=True)
    broker = Broker(port or free_port())
    configuration = folder / "mosquitto.conf"
    lines = [f"listener {broker.port} 127.0.0.1", "persistence false", "max_queued_messages 0"]
    if not any(line.startswith("password_file") for line in settings):
        lines.append("allow_anonymous true")
    configuration.write_text("\n".join([*lines, *settings, ""]))
    process = subprocess.Popen(
        [program, "-v", "-c", str(configuration)], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        broker.log.append(line)
        if "running" in line:
            break
    else:
        pytest.fail("mosquitto did not start: " + "".join(broker.log))
    reader = threading.Thread(target=lambda: broker.log.extend(process.stderr), daemon=True)
    reader.start()
    try:
        yield broker
    finally:
        process.terminate()
        process.wait()
        reader.join()
        process.stderr.close()


class OldBroker(socketserver.ThreadingTCPServer):
    """Stands before a broker and hangs up on clients that speak version 5, as old ones do."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Line)
        self.behind = port
        self.lines: list[socket.socket] = []
        self.versions: list[int] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def cut(self) -> None:
        """Cut every line."""
        for line in self.lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)


class _Line(socketserver.BaseRequestHandler):
    server: OldBroker

    def handle(self) -> None:
        hello = self.request.recv(4096)
        version = hello[hello.index(b"MQTT") + 4]
        self.server.versions.append(version)
        if version == _V5:
            return
        with socket.create_connection(("127.0.0.1", self.server.behind)) as behind:
            self.server.lines += [self.request, behind]
            behind.sendall(hello)
            back = threading.Thread(target=_copy, args=(behind, self.request))
            back.start()
            _copy(self.request, behind)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(4096):
            target.sendall(piece)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def serve(server: socketserver.BaseServer) -> Iterator[None]:
    """Run a server in a thread."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
