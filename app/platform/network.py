"""Network: how other machines are reached: a proxy, hosts that need none, certificates."""

import re
import ssl
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final, Self
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import SecretStr

SYSTEM: Final = Path("system")
"""The certificate authorities of the operating system alone."""

_NAME: Final = re.compile(r"\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_HOST_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PROXY_FORM: Final = (
    "must be http:// or https://, a host and a port and nothing after it, for example "
    "http://user:password@proxy.internal:3128 (special characters of the password as %XX)"
)
_NO_PROXY_FORM: Final = (
    "must be hosts (tools.internal), endings of hosts (.internal), addresses or networks (10.0.0.0/8), "
    "comma-separated, without ports and *"
)


@dataclass(frozen=True, slots=True)
class Proxy:
    """An outgoing proxy."""

    scheme: str
    address: str
    """host:port"""
    credentials: tuple[str, str] | None = field(default=None, repr=False)
    """The user name and the password."""

    @classmethod
    def read(cls, text: str) -> Self:
        """The proxy of a URL; raises `ValueError`, whose text has nothing of the URL."""
        try:
            url = urlsplit(text)
            port = url.port
        except ValueError:
            raise ValueError(_PROXY_FORM) from None
        if not (_is_proxy(url) and port and text.isascii() and text.isprintable()):
            raise ValueError(_PROXY_FORM)
        user = unquote(url.username or "")
        if ":" in user:
            raise ValueError("must have a user name without a colon")
        _, has_user, address = url.netloc.rpartition("@")
        return cls(url.scheme, address, (user, unquote(url.password or "")) if has_user else None)

    @property
    def url(self) -> str:
        """Without the user name and the password."""
        return f"{self.scheme}://{self.address}"


def _is_proxy(url: SplitResult) -> bool:
    return url.scheme in {"http", "https"} and bool(url.hostname) and url[2:] in {("", "", ""), ("/", "", "")}


@dataclass(frozen=True, slots=True)
class NoProxy:
    """Hosts that are reached directly."""

    names: frozenset[str] = frozenset()
    endings: tuple[str, ...] = (".localhost",)
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def read(cls, entries: tuple[str, ...]) -> Self:
        """Those of a list, and loopback; raises `ValueError`."""
        names, endings = {"localhost"}, [".localhost"]
        networks = [ip_network("127.0.0.0/8"), ip_network("::1")]
        for entry in (each.lower() for each in entries):
            try:
                networks.append(ip_network(entry.strip("[]"), strict=False))
            except ValueError:
                if not _NAME.fullmatch(entry):
                    raise ValueError(_NO_PROXY_FORM) from None
                (endings.append if entry.startswith(".") else names.add)(entry)
        return cls(frozenset(names), tuple(endings), tuple(networks))

    def includes(self, host: str) -> bool:
        """Whether it is one of them."""
        name = host.lower().strip("[]").removesuffix(".")
        try:
            address = ip_address(name)
        except ValueError:
            return name in self.names or name.endswith(self.endings)
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class Network:
    """The way to other machines. Without settings it is direct, with the usual certificate authorities."""

    proxy: Proxy | None = None
    no_proxy: NoProxy = field(default_factory=lambda: NoProxy.read(()))
    authorities: Path | None = None
    """A file of certificate authorities besides the usual ones, or `SYSTEM`."""
    certificate: tuple[Path, Path] | None = None
    """The client's certificate and its key: only for servers that may ask who calls."""

    def proxy_for(self, scheme: str, *hosts: str) -> Proxy | None:
        """The proxy that leads to a host, which may have several names; None: it is reached directly."""
        if scheme != "https" or any(self.no_proxy.includes(host) for host in hosts):
            return None
        return self.proxy


DIRECT: Final = Network()


def check_proxy(value: SecretStr) -> SecretStr:
    """Raise `ValueError` unless it is the URL of a proxy."""
    Proxy.read(value.get_secret_value())
    return value


def check_no_proxy(value: tuple[str, ...]) -> tuple[str, ...]:
    """Raise `ValueError` unless they are hosts."""
    NoProxy.read(value)
    return value


def check_authorities(path: Path) -> Path:
    """Raise `ValueError` unless it is `SYSTEM` or a file of certificates."""
    if path == SYSTEM:
        return path
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        raise ValueError("must be a file of certificates in PEM form, or system") from None
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror}); it must be a file, or system") from None
    return path


def check_key(key: Path | None, certificate: Path | None) -> Path | None:
    """Raise `ValueError` unless both are given and belong together, or none is."""
    if key is None and certificate is None:
        return None
    if key is None or certificate is None:
        raise ValueError("and RUNTALLY_CLIENT_CERT_FILE must be set together")
    try:
        load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate, key)
    except ssl.SSLError:
        message = "must be the key, in PEM form and without a passphrase, of RUNTALLY_CLIENT_CERT_FILE"
        raise ValueError(message) from None
    except OSError as error:
        raise ValueError(f"or RUNTALLY_CLIENT_CERT_FILE cannot be read ({error.strerror})") from None
    return key


def is_host_name(host: str) -> bool:
    """Whether it is a host name and cannot be read as an address by a resolver."""
    last = host.removesuffix(".").rpartition(".")[2]
    return _HOST_NAME.fullmatch(host) is not None and _NUMBER.fullmatch(last) is None


def load_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Load a client's certificate; a key with a passphrase is refused."""
    # Without a function OpenSSL would ask for the passphrase at the terminal.
    context.load_cert_chain(certificate, key, password=lambda: "")
