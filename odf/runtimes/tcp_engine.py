"""Engines of others: images that serve the ODF service on a TCP port, and nothing else.

A network without a way out would keep such an engine from the internet, but not from this machine:
it can reach every server here that listens on all addresses. So it gets no network either, and a
relay (`odf.runtimes.relay`), which shares its loopback interface, brings the port to a Unix
socket. The relay runs in one of our own images.

Such an engine knows no lifeline. It gets one from outside: a process of ours that waits for the
end of its standard input, and then removes the container.
"""

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Final

from odf.errors import EngineUnavailableError
from odf.limits import ENGINE_START_SECONDS
from odf.runtimes import relay
from odf.runtimes.base import Closeable, ContainerProgram, EngineHandle
from odf.runtimes.child import EngineProcess, SocketFolder
from odf.runtimes.container import (
    SOCKET_INSIDE,
    Container,
    ContainerRuntime,
    bind,
    container_name,
    remove_leftovers,
)
from odf.runtimes.exchange import Exchange
from odf.runtimes.images import BUILD_HINT, PYTHON_INSIDE, SPECS, image_name

ODF_PORT: Final = 5544
"""The port on which an engine serves, says the specification."""

_RELAY_INSIDE: Final = "/odf/relay.py"
_POLL_SECONDS: Final = 0.05
_GUARD: Final = """\
import json, os, subprocess, sys, threading
removal, *argv = sys.argv[1:]
engine = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
def watch():
    while os.read(0, 4096):
        pass
    nothing = subprocess.DEVNULL
    subprocess.run(json.loads(removal), stdin=nothing, stdout=nothing, stderr=nothing)
threading.Thread(target=watch, daemon=True).start()
code = engine.wait()
os._exit(code if code >= 0 else 128 - code)
"""


class TcpContainerRuntime(ContainerRuntime):
    """Runs engines that speak TCP only. Takes what `ContainerRuntime` takes."""

    def start(self, run_dir: Path) -> EngineHandle:
        """Start the engine and its relay; see `Runtime.start`."""
        from odf.runtimes.client import EngineClient, GrpcLink  # noqa: PLC0415  # as in `connect`

        program = self.program()
        if program.port is None:
            raise EngineUnavailableError(f"the image {program.image} has no port to speak to")
        relay_image = self._relay_image()
        remove_leftovers(self.cli)
        exchange, sockets = self.make_exchange(program, run_dir), self.make_sockets()
        name = container_name()
        argv = self._engine_argv(program, name, exchange, run_dir)
        started: list[Closeable] = []
        try:
            engine = EngineProcess(
                argv, self.cli.environment(), run_dir, sockets.socket, "the engine's container"
            )
            started += [Container(self.cli, name, engine), engine]
            self._wait_until_it_runs(engine, name)
            relay_name = container_name()
            joined = self._relay_argv(relay_image, relay_name, name, sockets, run_dir)
            bridge = EngineProcess(
                [*joined, str(program.port)],
                self.cli.environment(),
                run_dir / "relay",
                sockets.socket,
                "the relay of the engine",
            )
            started += [Container(self.cli, relay_name, bridge), bridge]
            engine.wait_ready(others=(bridge,))
            link = GrpcLink(sockets.socket, engine)
        except BaseException:
            for resource in (*reversed(started), sockets, exchange):
                resource.close()
            raise
        return EngineHandle(
            EngineClient(link, exchange),
            self.name,
            sandboxed=True,
            resources=(link, *reversed(started), sockets, exchange),
            pid=engine.pid,
            has_ended=engine.has_ended,
        )

    def _engine_argv(
        self, program: ContainerProgram, name: str, exchange: Exchange, run_dir: Path
    ) -> list[str]:
        tool = self.cli.program or self.name
        argv = [sys.executable, "-I", "-S", "-c", _GUARD]
        argv += [json.dumps([tool, *self.cli.removal(), name]), tool, "run", "--name", name]
        argv += self.restrictions(run_dir / "engine")
        argv += bind(exchange.host_in, program.input_folder, "ro")
        argv += bind(exchange.host_out, program.output_folder, "rw")
        for folder in program.scratch:
            argv += ["--tmpfs", f"{folder}:rw,exec,nosuid,nodev,mode=1777"]
        argv += ["--env", "HOME=/tmp", "--env", "TZ=UTC"]
        argv += ["--entrypoint", program.argv[0]] if program.argv else []
        return [*argv, program.image, *program.argv[1:]]

    def _relay_argv(
        self, image: str, name: str, engine: str, sockets: SocketFolder, run_dir: Path
    ) -> list[str]:
        argv = [self.cli.program or self.name, "run", "--interactive", "--name", name]
        argv += self.restrictions(run_dir / "relay", network=f"container:{engine}")
        argv += bind(sockets.path, SOCKET_INSIDE, "rw")
        argv += bind(Path(relay.__file__), _RELAY_INSIDE, "ro")
        argv += ["--entrypoint", PYTHON_INSIDE, image, "-I", "-S", _RELAY_INSIDE]
        return [*argv, f"{SOCKET_INSIDE}/{sockets.socket.name}"]

    def _relay_image(self) -> str:
        """Find one of our images: any has the Python that the relay needs."""
        for spec in SPECS.values():
            with contextlib.suppress(EngineUnavailableError):
                name = image_name(spec)
                if self.cli.image(name) is not None:
                    return name
        raise EngineUnavailableError(
            f"an engine of others is reached through one of odf's own images, and {self.name} has "
            "none that fits this release",
            hint=BUILD_HINT,
        )

    def _wait_until_it_runs(self, engine: EngineProcess, name: str) -> None:
        deadline = time.monotonic() + ENGINE_START_SECONDS
        question = ("container", "inspect", "--format", "{{.State.Running}}", name)
        while self.cli.call(*question).stdout.strip() != b"true":
            if engine.has_ended() or time.monotonic() > deadline:
                # Says with which words it ended, or that it never came up.
                engine.wait_ready(0)
            time.sleep(_POLL_SECONDS)
