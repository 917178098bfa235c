"""`python relay.py SOCKET PORT`: a Unix socket in front of an engine that speaks TCP only.

Runs in a container of its own that shares the network of the engine's, in which there is nothing
but the two of them. So such an engine needs no network that reaches anything, neither this machine
nor the internet, and the coordinator speaks to it as to any other. Nothing but Python's own
modules: it is shown to the container as this one file.

The socket appears once the engine accepts connections. It ends when standard input does.
"""

import os
import socket
import sys
import threading
import time

_PIECE = 1 << 16
_POLL_SECONDS = 0.02
_HOST = "127.0.0.1"


def main(path: str, port: int) -> None:
    """Wait for the engine, then relay every connection to it until standard input ends.

    Args:
        path: Where to make the socket.
        port: Where the engine serves.
    """
    threading.Thread(target=_watch_lifeline, daemon=True).start()
    while not _answers(port):
        time.sleep(_POLL_SECONDS)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen()
        while True:
            client, _ = server.accept()
            try:
                engine = socket.create_connection((_HOST, port))
            except OSError:
                # The client sees its connection end, as it would without a relay.
                client.close()
                continue
            _start(client, engine)


def _start(client: socket.socket, engine: socket.socket) -> None:
    for source, target in ((client, engine), (engine, client)):
        threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Carry bytes one way; the end of one way ends the connection."""
    try:
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    except OSError:
        # One side is gone: the other one learns it below.
        pass
    finally:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


def _answers(port: int) -> bool:
    try:
        socket.create_connection((_HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _watch_lifeline() -> None:
    while os.read(0, _PIECE):
        pass
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
