"""Attempt: a sign-in that has begun, which its browser keeps and nothing else."""

import hashlib
import hmac
import re
import secrets
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self
from urllib.parse import quote, unquote

LIFETIME: Final = timedelta(minutes=10)
PAGE: Final = r"^/(approvals|billing|console|device)?(\?[A-Za-z0-9_.~%=&*+-]{0,1000})?$"
"""A page of ours, where a person goes on: nothing that leads to another site."""
_COOKIE: Final = re.compile(r"(\d{1,12})\.[A-Za-z0-9_-]{43}\.(\S{1,4000})")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the issuer gets follows from the whole cookie.

    So a cookie in which anything is changed, as the time at which it ends, is that of another attempt.
    """

    cookie: str
    page: str

    @classmethod
    def new(cls, page: str) -> Self:
        """A new attempt of one who wants to this page."""
        expires = int(time.time() + LIFETIME.total_seconds())
        return cls(f"{expires}.{secrets.token_urlsafe(32)}.{quote(page, safe='')}", page)

    @classmethod
    def read(cls, cookie: str | None) -> Self | None:
        """The attempt of a cookie; None if it is malformed or over."""
        found = _COOKIE.fullmatch(cookie or "")
        if cookie is None or found is None or int(found[1]) <= time.time():
            return None
        page = unquote(found[2])
        return cls(cookie, page) if re.fullmatch(PAGE, page) else None

    @property
    def state(self) -> str:
        """Which comes back with the answer of the issuer."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """Which the issuer gets with the code."""
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        """What the issuer gets of the verifier before (S256)."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())

    @property
    def hash(self) -> bytes:
        """By which it is known that it was used."""
        return hashlib.sha256(self.cookie.encode()).digest()

    def _derived(self, name: str) -> str:
        return _text(hmac.digest(self.cookie.encode(), name.encode(), "sha256"))


def _text(digest: bytes) -> str:
    return urlsafe_b64encode(digest).decode("ascii").rstrip("=")
