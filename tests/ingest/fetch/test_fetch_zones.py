import pytest

from odf.ingest.fetch.proxies import proxy_for
from odf.ingest.fetch.zones import Zone, zone_of_address, zone_of_host


@pytest.mark.parametrize(
    ("address", "zone"),
    [
        ("127.0.0.1", Zone.LOOPBACK),
        ("127.8.9.1", Zone.LOOPBACK),
        ("0.0.0.0", Zone.LOOPBACK),
        ("::1", Zone.LOOPBACK),
        ("::ffff:127.0.0.1", Zone.LOOPBACK),
        ("2002:7f00:1::", Zone.LOOPBACK),
        ("169.254.169.254", Zone.LINK_LOCAL),
        ("fe80::1%eth0", Zone.LINK_LOCAL),
        ("10.1.2.3", Zone.PRIVATE),
        ("192.168.1.1", Zone.PRIVATE),
        ("100.64.0.1", Zone.PRIVATE),
        ("fd00::1", Zone.PRIVATE),
        ("224.0.0.1", Zone.PRIVATE),
        ("8.8.8.8", Zone.PUBLIC),
        ("2606:4700::1111", Zone.PUBLIC),
    ],
)
def test_zones_of_addresses(address, zone):
    assert zone_of_address(address) is zone


@pytest.mark.parametrize(
    ("host", "zone"),
    [
        ("localhost", Zone.LOOPBACK),
        ("LOCALHOST.", Zone.LOOPBACK),
        ("a.localhost", Zone.LOOPBACK),
        ("127.1", Zone.LOOPBACK),
        ("2130706433", Zone.LOOPBACK),
        ("0x7f000001", Zone.LOOPBACK),
        ("[::1]", Zone.LOOPBACK),
        ("intranet", Zone.PRIVATE),
        ("10.0.0.1", Zone.PRIVATE),
        ("example.org", Zone.PUBLIC),
        ("1.example.org", Zone.PUBLIC),
    ],
)
def test_zones_of_names(host, zone):
    assert zone_of_host(host) is zone


@pytest.mark.parametrize(
    ("url", "variables", "wanted"),
    [
        (("http", "a.org", 80), {}, None),
        (("http", "a.org", 80), {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        (("http", "a.org", 80), {"HTTP_PROXY": "http://p:1", "http_proxy": "q:2"}, "http://q:2"),
        (("https", "a.org", 443), {"HTTP_PROXY": "http://p:1"}, None),
        (("https", "a.org", 443), {"all_proxy": "http://p:1"}, "http://p:1"),
        (("http", "localhost", 80), {"HTTP_PROXY": "http://p:1"}, None),
        (("http", "a.org", 80), {"HTTP_PROXY": "http://p:1", "no_proxy": "b.org, a.org"}, None),
        (("http", "x.a.org", 80), {"HTTP_PROXY": "http://p:1", "no_proxy": ".a.org"}, None),
        (("http", "xa.org", 80), {"HTTP_PROXY": "http://p:1", "no_proxy": ".a.org"}, "http://p:1"),
        (("http", "a.org", 80), {"HTTP_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        (("http", "a.org", 80), {"HTTP_PROXY": "http://p:1", "NO_PROXY": "a.org:81"}, "http://p:1"),
        (("http", "a.org", 81), {"HTTP_PROXY": "http://p:1", "NO_PROXY": "b.org,a.org:81"}, None),
        (("http", "10.1.2.3", 80), {"HTTP_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None),
        (("http", "10.1.2.3", 80), {"HTTP_PROXY": "http://p:1", "NO_PROXY": "10.1.2.3"}, None),
        (("http", "11.1.2.3", 80), {"HTTP_PROXY": "p:1", "NO_PROXY": "10.0.0.0/8"}, "http://p:1"),
        (("http", "[fd00::1]", 80), {"HTTP_PROXY": "http://p:1", "NO_PROXY": "fd00::/8"}, None),
        (("http", "[fd00::1]", 80), {"HTTP_PROXY": "http://p:1", "NO_PROXY": "fd00::1"}, None),
        (("http", "[fd00::1]", 80), {"HTTP_PROXY": "http://p:1", "NO_PROXY": "[fd00::1]"}, None),
        (("http", "a.org", 80), {"HTTP_PROXY": "http://p:1", "NO_PROXY": " , .,:80"}, "http://p:1"),
    ],
)
def test_choice_of_proxy(url, variables, wanted):
    assert proxy_for(*url, variables) == wanted
