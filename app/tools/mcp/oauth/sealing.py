"""Sealer: encrypts logins, so that the database alone has no token."""

from pydantic import SecretStr, TypeAdapter, ValidationError

from app.platform.serialization.cipher import Cipher, NotDecrypted
from app.tools.mcp.oauth.records import LoginKey, McpLogin

_LOGIN = TypeAdapter(McpLogin)


class LoginUnreadable(Exception):
    """A login was encrypted with another key, for another server, or by another release."""


class Sealer:
    """A login is bound to its graph and server."""

    def __init__(self, key: SecretStr) -> None:
        self._cipher = Cipher(key)

    def seal(self, key: LoginKey, login: McpLogin) -> bytes:
        """The login, encrypted."""
        return self._cipher.encrypt(_LOGIN.dump_json(login), purpose=_purpose(key))

    def unseal(self, key: LoginKey, sealed: bytes) -> McpLogin:
        """The login; raises `LoginUnreadable`."""
        try:
            return _LOGIN.validate_json(self._cipher.decrypt(sealed, purpose=_purpose(key)))
        except (NotDecrypted, ValidationError) as error:
            raise LoginUnreadable from error


def _purpose(key: LoginKey) -> bytes:
    return f"runtally mcp login\0{key.graph}\0{key.server}".encode()
