from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from odf.clock import FixedClock
from odf.ingest.fetch import FetchContext
from odf.metadata.model import Timestamp
from tests.ingest.fetch.hostile_server import HostileServer

NOW = datetime(2024, 6, 1, 12, 0, 0, tzinfo=UTC)


@dataclass
class Around:
    """A fetch context with what it was told and how long it was asked to wait."""

    root: Path
    said: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    def ctx(self, **changes: Any) -> FetchContext:
        settings: dict[str, Any] = {
            "workspace_root": self.root,
            "cache_dir": self.root / ".odf/cache/fetch",
            "clock": FixedClock(NOW),
            "system_time": Timestamp.from_datetime(NOW),
            "environment": {},
            "report": self.said.append,
            "is_first": True,
            "sleep": self.slept.append,
        }
        return FetchContext(**(settings | changes))

    @property
    def leftovers(self) -> list[str]:
        cache = self.root / ".odf/cache/fetch"
        return sorted(path.name for path in cache.iterdir()) if cache.is_dir() else []


@pytest.fixture
def around(tmp_path: Path) -> Around:
    return Around(tmp_path)


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as running:
        yield running


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file below the workspace root; `at` is its modification time in whole seconds."""
    import os

    def make(name: str, content: str = "x\n", at: float = 1_700_000_000.0) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        os.utime(path, ns=(int(at * 1000) * 1_000_000,) * 2)
        return path

    return make


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that signs itself; the path of a file with its key too."""
    import datetime as dt
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path
