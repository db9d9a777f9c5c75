"""A private certificate authority."""

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)
_PEM = serialization.Encoding.PEM


class Authority:
    """Issues certificates; `file` is its own."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory, self._numbers = directory, count()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.file = directory / f"{name}.pem"
        own = self._builder(self._name, self._key.public_key(), ends=_DAY)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.file.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def certificate(self, host: str, *, ends: timedelta = _DAY) -> Path:
        """A certificate for a host or a client, and its key, in one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        built = self._builder(_named(host), key.public_key(), ends=ends).add_extension(names, critical=False)
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path = self._directory / f"{host}-{next(self._numbers)}.pem"
        path.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(_PEM) + private)
        return path

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, ends: timedelta
    ) -> x509.CertificateBuilder:
        now, issuer = datetime.now(UTC), self._key.public_key()
        return (
            x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number())
            .not_valid_before(now - 2 * _DAY)
            .not_valid_after(now + ends)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
        )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
