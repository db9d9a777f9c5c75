"""The text of API keys: generation, hashing, format; no database; pure."""

import hashlib
import re
import secrets
from collections.abc import Sequence

from app.errors import Invalid
from app.requests.principal import SCOPES, Scope

_KEY = re.compile(r"rt_[A-Za-z0-9_-]{16,200}")
_SHOWN_CHARS = 7


def mint_key() -> str:
    """A new key: 256 random bits."""
    return f"rt_{secrets.token_urlsafe(32)}"


def hash_key(secret: str) -> bytes:
    """The stored hash. A fast one is enough: slow hashes protect guessable secrets, and keys are random."""
    return hashlib.sha256(secret.encode()).digest()


def is_key(api_key: str) -> bool:
    return _KEY.fullmatch(api_key) is not None


def key_prefix(secret: str) -> str:
    """The first characters, shown to tell keys apart."""
    return secret[:_SHOWN_CHARS]


def parse_scopes(scopes: Sequence[str]) -> tuple[Scope, ...]:
    """The scopes in their defined order; raises `Invalid` if one is unknown or there is none."""
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown:
        raise Invalid.field("scope", f"{unknown[0]!r} is not one of {', '.join(SCOPES)}")
    if not scopes:
        raise Invalid.field("scope", f"give at least one of {', '.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in scopes)
