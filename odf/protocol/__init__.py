"""What engines are told: the public ODF service, its messages, and our hosts' private service."""

from typing import Final

PROTOCOL_VERSION: Final = 1
"""Version of the private service; raised whenever `host.proto` changes in any way."""

ODF_PORT: Final = 5544
"""The TCP port on which the specification places engines."""
