from typing import Any

import pytest
from pydantic import ValidationError

from app.gateway.web.spec import WebSpec


@pytest.mark.parametrize(
    "domain", ["example.com", "a.b.example.co.uk", "xn--bcher-kva.example", "9gag.com", "example.xn--p1ai"]
)
def test_host_names_are_taken(domain: str) -> None:
    assert WebSpec(search=True, allowed_domains=(domain,)).allowed_domains == (domain,)


@pytest.mark.parametrize(
    "domain",
    [
        *("", "com", "localhost", "Example.com", "example.com.", ".example.com", "a..example.com"),
        *("https://example.com", "example.com/path", "example.com:443", "user@example.com", "*.example.com"),
        *("127.0.0.1", "[::1]", "2130706433", "0x7f.1", "bücher.example", "ex\u0430mple.com", "example。com"),
        *("-a.example.com", "a-.example.com", "a_b.example.com", "example.com\n", "a" * 64 + ".com"),
        ".".join(["a" * 60] * 5) + ".com",
    ],
)
@pytest.mark.parametrize("key", ["allowed_domains", "blocked_domains"])
def test_nothing_else_is(key: str, domain: str) -> None:
    fields: dict[str, Any] = {key: (domain,)}
    with pytest.raises(ValidationError, match=r"must be a host name such as example\.com"):
        WebSpec(search=True, **fields)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "search or fetch must be true"),
        (
            {"fetch": True, "allowed_domains": ("a.com",), "blocked_domains": ("b.com",)},
            "allowed_domains and blocked_domains exclude each other",
        ),
        ({"search": True, "max_uses": 0}, "greater than or equal to 1"),
        ({"search": True, "max_uses": 101}, "less than or equal to 100"),
        ({"search": "yes"}, "valid boolean"),
        ({"search": True, "location": "Paris"}, "not permitted"),
    ],
)
def test_what_is_impossible_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        WebSpec(**fields)
