"""A real FTP server on loopback, which can be told to break off."""

import os
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    # It uses modules of the standard library that Python 3.11 announces the end of.
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("pyftpdlib", reason="pyftpdlib is not installed")
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import DTPHandler, FTPHandler, TLS_DTPHandler, TLS_FTPHandler
    from pyftpdlib.ioloop import IOLoop
    from pyftpdlib.servers import FTPServer

AT = 1_700_000_000


class Ftp:
    """A server with a folder, and what it was asked."""

    def __init__(self, folder: Path, certificate: Path | None = None) -> None:
        folder.mkdir()
        self.folder = folder
        self.cut_after: list[int] = []
        self.asked: list[str] = []
        outer = self

        transfers, commands = DTPHandler, FTPHandler
        if certificate is not None:
            transfers, commands = TLS_DTPHandler, TLS_FTPHandler

        class Cutting(transfers):  # type: ignore[misc, valid-type]
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                self.left = outer.cut_after.pop(0) if outer.cut_after else None

            def send(self, data: bytes) -> int:
                if self.left is None:
                    return int(super().send(data))
                sent = int(super().send(data[: self.left])) if self.left else 0
                self.left -= sent
                if not self.left:
                    self.cmd_channel.close()
                    self.close()
                return sent

        class Handler(commands):  # type: ignore[misc, valid-type]
            use_sendfile = False
            dtp_handler = Cutting

            def pre_process_command(self, line: str, cmd: str, arg: str) -> None:
                outer.asked.append(line)
                super().pre_process_command(line, cmd, arg)

        Handler.proto_cmds = dict(commands.proto_cmds)
        if certificate is not None:
            Handler.certfile = str(certificate)
            Handler.tls_control_required = Handler.tls_data_required = True
        authorizer = DummyAuthorizer()
        authorizer.add_user("ann", "S3cr et@", str(folder))
        authorizer.add_anonymous(str(folder))
        Handler.authorizer = authorizer
        self.handler = Handler
        self.loop = IOLoop()
        self.server = FTPServer(("127.0.0.1", 0), Handler, ioloop=self.loop)
        self.port = self.server.address[1]
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        while not self.ended.is_set():
            self.server.serve_forever(timeout=0.02, blocking=False, handle_exit=False)

    def close(self) -> None:
        self.ended.set()
        self.thread.join()
        self.server.close_all()

    def forget(self, *commands: str) -> None:
        """Be a server that does not know these commands."""
        for command in commands:
            del self.handler.proto_cmds[command]

    def write(self, name: str, content: bytes, at: int = AT) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (at, at))

    def url(self, name: str, user: str = "") -> str:
        return f"ftp://{user}127.0.0.1:{self.port}/{name}"
