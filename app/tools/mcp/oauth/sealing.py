"""Sealer: encrypts logins, so that the database alone has no token."""

import hashlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr, TypeAdapter, ValidationError

from app.tools.mcp.oauth.records import LoginKey, McpLogin

_NONCE_BYTES = 12
_LOGIN = TypeAdapter(McpLogin)


class LoginUnreadable(Exception):
    """A login was encrypted with another key, for another server, or by another release."""


class Sealer:
    """AES-256-GCM; a login is bound to its graph and server."""

    def __init__(self, key: SecretStr) -> None:
        # A key of any length becomes one of 256 bits.
        self._cipher = AESGCM(hashlib.sha256(key.get_secret_value().encode()).digest())

    def seal(self, key: LoginKey, login: McpLogin) -> bytes:
        """The login, encrypted."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, _LOGIN.dump_json(login), _bound_to(key))

    def unseal(self, key: LoginKey, sealed: bytes) -> McpLogin:
        """The login; raises `LoginUnreadable`."""
        try:
            text = self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _bound_to(key))
            return _LOGIN.validate_json(text)
        except (InvalidTag, ValidationError) as error:
            raise LoginUnreadable from error


def _bound_to(key: LoginKey) -> bytes:
    return f"runtally mcp login\0{key.graph}\0{key.server}".encode()
