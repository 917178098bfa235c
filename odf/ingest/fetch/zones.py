"""How far inside an address lies, for the rule that a redirect never leads further in.

A server on the internet that redirects to 127.0.0.1 or to an address of the local network makes
this machine read what the server itself could not (design §8). So a redirect may stay in its zone
or lead outwards, never inwards.
"""

import socket
from enum import IntEnum
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address


class Zone(IntEnum):
    """Where an address lies, the innermost first."""

    LOOPBACK = 0
    LINK_LOCAL = 1
    PRIVATE = 2
    PUBLIC = 3

    @property
    def words(self) -> str:
        """The zone in words, to follow "to"."""
        return ("this machine", "a link-local address", "a private network", "the internet")[self]


def zone_of_address(text: str) -> Zone:
    """Tell the zone of an IP address that a socket is connected to."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        # Addresses that only wrap an IPv4 address count as that one.
        address = address.ipv4_mapped or address.sixtofour or address
    if address.is_loopback or address.is_unspecified:
        return Zone.LOOPBACK
    if address.is_link_local:
        return Zone.LINK_LOCAL
    return Zone.PUBLIC if address.is_global and not address.is_multicast else Zone.PRIVATE


def zone_of_host(host: str) -> Zone:
    """Tell the zone of a host as far as its name shows it, without looking it up.

    Names with a dot count as public: the address that they turn out to have is looked at when
    the connection stands. Through a proxy this is all that can be known.
    """
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return Zone.LOOPBACK
    if (address := _literal(name)) is not None:
        return zone_of_address(address)
    return Zone.PUBLIC if "." in name else Zone.PRIVATE


def _literal(name: str) -> str | None:
    """Return the address that a host name spells out, also in the old forms such as 127.1."""
    try:
        if ":" in name:
            return str(IPv6Address(name))
        if name[:1].isdigit():
            return str(IPv4Address(socket.inet_aton(name)))
    except (AddressValueError, OSError):
        pass
    return None
