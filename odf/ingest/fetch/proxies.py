"""Which proxy a request goes through, by the customary variables."""

from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network

from .zones import Zone, zone_of_host


def proxy_for(scheme: str, host: str, port: int, variables: Mapping[str, str]) -> str | None:
    """Choose the proxy for a request.

    Args:
        scheme: `http`, `https`, `ftp` or `ftps`.
        host: Host of the request.
        port: Its port.
        variables: Has `HTTP_PROXY`, `HTTPS_PROXY` and so on, `ALL_PROXY`, `NO_PROXY`; lower case
            wins.

    Returns:
        URL of the proxy, or None for a direct connection. This machine is always direct.
    """
    if zone_of_host(host) is Zone.LOOPBACK or _excluded(host, port, _get(variables, "no_proxy")):
        return None
    url = _get(variables, f"{scheme}_proxy") or _get(variables, "all_proxy")
    if not url:
        return None
    return url if "://" in url else f"http://{url}"


def _get(variables: Mapping[str, str], name: str) -> str:
    return (variables.get(name) or variables.get(name.upper()) or "").strip()


def _excluded(host: str, port: int, rules: str) -> bool:
    host = host.strip("[]").lower()
    return any(_fits(rule.strip(), host, port) for rule in rules.lower().split(",") if rule.strip())


def _fits(rule: str, host: str, port: int) -> bool:
    """Tell whether a rule of `no_proxy` means a host: a name, a domain, an address or a network."""
    if rule == "*":
        return True
    with suppress(ValueError):
        return ip_address(host) in ip_network(rule.strip("[]"), strict=False)
    name, _, wanted = rule.rpartition(":") if rule.rpartition(":")[2].isdigit() else (rule, "", "")
    if wanted and wanted != str(port):
        return False
    name = name.strip("[]").removeprefix("*").lstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))
