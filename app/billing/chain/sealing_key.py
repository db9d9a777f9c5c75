"""SealingKey: the key that signs roots, and the public keys of roots signed before."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from app.billing.chain.verifier import key_id, read_public_keys
from app.errors import OperatorError


class SealingKeyError(OperatorError):
    """The key file cannot be used; the text names RUNTALLY_SEALING_KEY_FILE and never shows the key."""


@dataclass(frozen=True, slots=True)
class SealingKey:
    """A private key, and public keys that are trusted besides its own."""

    _private: Ed25519PrivateKey
    _earlier: Mapping[str, Ed25519PublicKey]

    @classmethod
    def read(cls, path: Path) -> "SealingKey":
        """Read a file made by `create` or `rotate`; raises `SealingKeyError`."""
        try:
            pem = path.read_bytes()
            private = load_pem_private_key(pem, None)
            earlier = read_public_keys(pem)
        except OSError as error:
            message = f"RUNTALLY_SEALING_KEY_FILE: {path} cannot be read: {error.strerror}"
            raise SealingKeyError(message) from error
        except (ValueError, TypeError):
            # Without the original error, which may show a part of the file.
            message = f"RUNTALLY_SEALING_KEY_FILE: {path} has no private key in PEM"
            raise SealingKeyError(message) from None
        if not isinstance(private, Ed25519PrivateKey):
            message = f"RUNTALLY_SEALING_KEY_FILE: {path}: the key is not Ed25519"
            raise SealingKeyError(message)
        return cls(private, earlier)

    @classmethod
    def create(cls, path: Path) -> "SealingKey":
        """Write a new key to a file that must not exist; raises `SealingKeyError`."""
        key = cls(Ed25519PrivateKey.generate(), {})
        if path.exists():
            message = f"{path} exists; use --rotate to replace its key"
            raise SealingKeyError(message)
        key._write(path)
        return key

    @classmethod
    def rotate(cls, path: Path) -> "SealingKey":
        """Replace the private key of a file and keep its public key; raises `SealingKeyError`."""
        key = cls(Ed25519PrivateKey.generate(), cls.read(path).public_keys)
        key._write(path)
        return key

    @property
    def id(self) -> str:
        return key_id(self._private.public_key())

    @property
    def public_keys(self) -> dict[str, Ed25519PublicKey]:
        """Its public key, and those of before, by id."""
        return {self.id: self._private.public_key(), **self._earlier}

    @property
    def public_pems(self) -> dict[str, str]:
        """The public keys as they are given to customers, by id, the newest first."""
        return {
            name: key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
            for name, key in self.public_keys.items()
        }

    def sign(self, statement: str) -> bytes:
        return self._private.sign(statement.encode())

    def _write(self, path: Path) -> None:
        private = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        earlier = "".join(pem for name, pem in self.public_pems.items() if name != self.id)
        try:
            # A temporary file has mode 0600; the old key stays until the new one is on disk.
            with NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
                file.write(private + earlier)
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(path)
        except OSError as error:
            message = f"{path} cannot be written: {error.strerror}"
            raise SealingKeyError(message) from error
