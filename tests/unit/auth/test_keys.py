import pytest

from app.auth.keys import hash_key, is_key, key_prefix, mint_key, parse_scopes
from app.errors import Invalid


def test_keys_are_long_random_and_recognisable() -> None:
    minted = {mint_key() for _ in range(100)}

    assert len(minted) == 100
    assert all(is_key(key) and len(key) >= 46 for key in minted)


@pytest.mark.parametrize(
    "text", ["", "rt_", "rt_short", "sk_" + "x" * 40, "rt_" + "x" * 400, "rt_" + "é" * 30]
)
def test_an_invalid_key_is_detected_without_a_query(text: str) -> None:
    assert not is_key(text)


def test_neither_hash_nor_prefix_reveals_the_key() -> None:
    key = mint_key()

    assert key.encode() not in hash_key(key)
    assert len(key_prefix(key)) < 10


def test_scopes_are_checked_by_name() -> None:
    assert parse_scopes(["runs:read", "runs:write", "runs:read"]) == ("runs:write", "runs:read")
    with pytest.raises(Invalid, match="everything"):
        parse_scopes(["everything"])
    with pytest.raises(Invalid, match="at least one"):
        parse_scopes([])
