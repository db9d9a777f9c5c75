"""API keys: mint, hash, recognise; pure."""

import hashlib
import re
import secrets
from collections.abc import Sequence

from app.errors import Invalid
from app.principal import SCOPES, Scope

_KEY = re.compile(r"rt_[A-Za-z0-9_-]{16,200}")
_SHOWN_CHARS = 7


def mint_key() -> str:
    """A new key: 256 bits nobody can guess."""
    return f"rt_{secrets.token_urlsafe(32)}"


def hash_key(secret: str) -> bytes:
    """What is stored. A plain hash is enough: slow ones protect guessable secrets, and this is none."""
    return hashlib.sha256(secret.encode()).digest()


def is_key(api_key: str) -> bool:
    """Whether it could be a key at all."""
    return _KEY.fullmatch(api_key) is not None


def key_prefix(secret: str) -> str:
    """The first characters, by which a person tells keys apart."""
    return secret[:_SHOWN_CHARS]


def parse_scopes(scopes: Sequence[str]) -> tuple[Scope, ...]:
    """The scopes in their usual order; raises `Invalid` for an unknown one or none."""
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown:
        raise Invalid.field("scope", f"{unknown[0]!r} is not one of {', '.join(SCOPES)}")
    if not scopes:
        raise Invalid.field("scope", f"give at least one of {', '.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in scopes)
