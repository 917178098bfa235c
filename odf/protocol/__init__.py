"""What engines are told: the public ODF service, its messages, and our hosts' private service."""

from typing import Final

PROTOCOL_VERSION: Final = 3
"""Version of the private service; raised whenever `host.proto` changes in any way."""

RETRACTIONS_HEADER: Final = "odf-retractions"
"""gRPC metadata of a transform: for each input `1` or `0`, whether it can hold retractions, or `-`.

Engines of others ignore it; ours keep the rows that a retraction may call for from the start.
"""

MISSING_ARCHIVE: Final = "none"
"""What our Spark engine says of `archive`, among its versions, if it had to start without one."""

LEASE_SOCKET: Final = "lease.sock"
"""Name of the socket on which a host that stays gives leases, beside the engine's own."""

ODF_PORT: Final = 5544
"""The TCP port on which the specification places engines."""
