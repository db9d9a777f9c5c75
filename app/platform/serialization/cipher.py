"""Cipher: encrypts bytes with an operator's key."""

import hashlib
import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

_NONCE_BYTES = 12


class NotDecrypted(Exception):
    """The bytes were encrypted with another key or for another purpose, or were changed."""


class Cipher:
    """AES-256-GCM."""

    def __init__(self, key: SecretStr) -> None:
        # A key of any length becomes one of 256 bits.
        self._key = hashlib.sha256(key.get_secret_value().encode()).digest()
        self._cipher = AESGCM(self._key)

    def encrypt(self, content: bytes, *, purpose: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, purpose)

    def decrypt(self, encrypted: bytes, *, purpose: bytes) -> bytes:
        """The bytes; raises `NotDecrypted`."""
        try:
            return self._cipher.decrypt(encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], purpose)
        except (InvalidTag, ValueError) as error:
            raise NotDecrypted from error

    def name(self, text: str) -> str:
        """A name from which only holders of the key can conclude the text."""
        return hmac.digest(self._key, text.encode(), "sha256").hex()
