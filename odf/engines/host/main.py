"""The process around an engine: sockets, life and death.

`serve` is the whole `__main__` of an engine::

    python -m odf.engines.spark --socket PATH --in DIR --out DIR [--tcp PORT]

It serves on a Unix socket inside a folder that only this user can enter, prints one JSON line on
standard output when it can be reached, and warms the engine up from then on. It ends when
standard input reaches its end: whoever started it holds the other end of that pipe, so it cannot
outlive its coordinator, not even one that was killed. (In a container that takes `-i`.) With
`--idle` it stays for the next command instead, see `odf.engines.host.lease`.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc

from odf.engines.host.engine import Engine
from odf.engines.host.lease import Leases
from odf.engines.host.servicer import EngineHost
from odf.limits import ENGINE_STOP_SECONDS, MAX_ENGINE_MESSAGE
from odf.protocol import LEASE_SOCKET, PROTOCOL_VERSION

SERVER_THREADS = 8
"""Beside those of the operations that run: they answer `Describe` and wait for their turn."""


@dataclass(frozen=True, slots=True)
class HostOptions:
    """What an engine is told about its surroundings.

    Attributes:
        input_folder: Below it lie the files to read; may be read-only.
        output_folder: Below it everything is written, scratch folders too.
        arguments: The parsed command line, with the options that the engine added.
    """

    input_folder: Path
    output_folder: Path
    arguments: argparse.Namespace


EngineFactory = Callable[[HostOptions], Engine]


def serve(
    engine_factory: EngineFactory,
    argv: Sequence[str],
    *,
    add_options: Callable[[argparse.ArgumentParser], None] | None = None,
) -> int:
    """Serve an engine until the lifeline is cut or SIGTERM or SIGINT arrives.

    Args:
        engine_factory: Makes the engine; has to be quick (see `Engine.warm_up`).
        argv: The command line without the program.
        add_options: Adds options of the engine's own to the parser.

    Returns:
        The exit code, 0 after an orderly end.
    """
    arguments = _parse(argv, add_options)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if arguments.idle is None:
        threading.Thread(target=_watch_lifeline, args=(stop,), daemon=True, name="lifeline").start()

    engine = engine_factory(HostOptions(arguments.input, arguments.output, arguments))
    host = EngineHost(engine)
    server = grpc.server(
        ThreadPoolExecutor(SERVER_THREADS + engine.operations, thread_name_prefix="rpc"),
        options=[
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", MAX_ENGINE_MESSAGE),
        ],
    )
    host.register(server)
    if arguments.idle is not None:
        # Before the engine's own socket: whoever can reach that one can also take a lease.
        _serve_leases(arguments.socket.parent, arguments.idle, stop, host)
    _bind(server, arguments.socket, arguments.tcp)
    server.start()
    threading.Thread(target=host.warm_up, daemon=True, name="warm-up").start()
    ready = {"ready": True, "protocol": PROTOCOL_VERSION, "engine": engine.name, "pid": os.getpid()}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()

    stop.wait()
    return _shut_down(server, engine, arguments.socket)


def _parse(
    argv: Sequence[str], add_options: Callable[[argparse.ArgumentParser], None] | None
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve an ODF engine over gRPC.")
    parser.add_argument("--socket", type=Path, required=True, help="Unix socket to serve on")
    parser.add_argument(
        "--in", dest="input", type=Path, required=True, help="folder of the files to read"
    )
    parser.add_argument(
        "--out", dest="output", type=Path, required=True, help="folder to write into"
    )
    parser.add_argument(
        "--tcp", type=int, metavar="PORT", help="serve on this port as well (ODF says 5544)"
    )
    parser.add_argument(
        "--idle",
        type=float,
        metavar="SECONDS",
        help="outlive the starter, and end after this time without use",
    )
    if add_options is not None:
        add_options(parser)
    return parser.parse_args(argv)


def _serve_leases(
    folder: Path, idle_seconds: float, stop: threading.Event, host: EngineHost
) -> None:
    def end() -> None:
        stop.set()
        _end_soon()

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    Leases(folder / LEASE_SOCKET, idle_seconds, stop=end, rest=host.rest).serve()


def _bind(server: grpc.Server, socket: Path, port: int | None) -> None:
    """Open the socket; the folder around it keeps other users out.

    A TCP port is open to everyone who reaches this network namespace: it is meant for sandboxes
    and containers, which have one of their own.
    """
    socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    server.add_insecure_port(f"unix:{socket.absolute()}")
    if port is not None:
        server.add_insecure_port(f"0.0.0.0:{port}")


def _watch_lifeline(stop: threading.Event) -> None:
    """Wait for the end of standard input, which comes however the coordinator ends.

    The file descriptor is read below Python's buffers, so that this thread holds no lock that the
    interpreter wants when it ends.
    """
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        traceback.print_exc()
    stop.set()
    _end_soon()


def _end_soon() -> None:
    """An engine that hangs, or never got as far as the main loop, may not live on either."""
    timer = threading.Timer(ENGINE_STOP_SECONDS, _end_now, (1,))
    timer.daemon = True
    timer.start()


def _shut_down(server: grpc.Server, engine: Engine, socket: Path) -> int:
    """Stop at once: whoever waited for an answer has gone, or asked for the end."""
    server.stop(grace=None)
    # The coordinator does this too, but one that was killed cannot.
    with contextlib.suppress(OSError):
        socket.unlink(missing_ok=True)
        (socket.parent / LEASE_SOCKET).unlink(missing_ok=True)
        socket.parent.rmdir()
    code = 0
    try:
        engine.close()
    except Exception:  # noqa: BLE001  # the process ends anyway; the log says why it was not clean
        traceback.print_exc()
        code = 1
    # Threads of an operation that nobody waits for must not delay the end.
    _end_now(code)
    return code


def _end_now(code: int) -> None:
    """End this process and, where it leads a group of its own, all that it started."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code != 0 and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(code)
