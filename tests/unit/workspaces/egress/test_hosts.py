import pytest

from app.workspaces.egress.hosts import Target


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pypi.org", "pypi.org"),
        ("PyPI.org:443", "pypi.org"),
        ("git.example.com:8443", "git.example.com:8443"),
        ("localhost:1", "localhost:1"),
    ],
)
def test_a_host_has_one_form(text: str, shown: str) -> None:
    assert str(Target.read(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("", "*.example.com", "example.com.", ".example.com", "example..com", "https://example.com", "a b"),
        *("example.com:", "example.com:0", "example.com:65536", "example.com:443:443", "u@example.com"),
        # Addresses, however they are written.
        *("127.0.0.1", "169.254.169.254:443", "2130706433", "0x7f000001", "127.1", "[::1]:443", "::1"),
        *("ex\u00e4mple.com", "example.com\n", "example.com\r\nx:y"),
    ],
)
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must "):
        Target.read(text)
