"""ReportingSession: the connection to a receiver; logs once when it is away, and once when it is back."""

import ssl
from collections.abc import Generator
from typing import Any
from urllib.parse import quote, urlsplit

import requests
import structlog
from requests.adapters import HTTPAdapter

from app.platform.network import DIRECT, Network, Proxy
from app.platform.outgoing import tls_context

log = structlog.get_logger(__name__)

SUCCESS = range(200, 300)
_TIMEOUT_S = 10.0
_PROTOBUF = {"content-type": "application/x-protobuf"}


class ReportingSession(requests.Session):
    """Used by one exporter, or for one signal of clients: by one thread at a time."""

    def __init__(self, signal: str, endpoint: str, network: Network = DIRECT) -> None:
        super().__init__()
        self.trust_env = False
        self.mount("https://", _Adapter(tls_context(network)))
        url = urlsplit(endpoint)
        if (proxy := network.proxy_for(url.scheme, url.hostname or "")) is not None:
            self.proxies = {"https": _with_credentials(proxy)}
        self.signal = signal
        self.failures = 0
        self._is_away = False

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request; a redirect is an error, because it would get the headers, which are secret."""
        kwargs["allow_redirects"] = False
        try:
            response = super().request(*args, **kwargs)
        except requests.RequestException as error:
            self._note(type(error).__name__)
            raise
        if response.is_redirect:
            self._note(f"HTTP {response.status_code}")
            raise requests.TooManyRedirects(response=response)
        self._note(None if response.status_code in SUCCESS else f"HTTP {response.status_code}")
        return response

    def resolve_redirects(self, *_args: Any, **_kwargs: Any) -> Generator[Any]:
        """See the library, which would read the address of a redirect that is not followed, and may fail."""
        yield from ()

    def send_protobuf(self, url: str, body: bytes) -> int | None:
        """The status of the answer; None if there is none."""
        try:
            return self.post(url, body, headers=_PROTOBUF, timeout=_TIMEOUT_S).status_code
        except requests.RequestException:
            return None

    def _note(self, problem: str | None) -> None:
        if problem is not None and not self._is_away:
            log.warning("telemetry.export_failed", signal=self.signal, reason=problem)
        if problem is None and self._is_away:
            log.info("telemetry.export_resumed", signal=self.signal)
        self._is_away = problem is not None
        self.failures += self._is_away


class _Adapter(HTTPAdapter):
    """Verifies certificates as all outgoing connections do, and by a file that a variable OTEL_* names."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """See the library: how hosts are reached directly."""
        super().init_poolmanager(*args, **options, ssl_context=self._tls)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        """See the library: how they are reached through a proxy."""
        tls = {"ssl_context": self._tls, "proxy_ssl_context": self._tls}
        return super().proxy_manager_for(proxy, **options, **tls)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """See the library, which would add authorities of its own."""
        if verify is not True or cert:
            super().cert_verify(conn, url, verify, cert)


def _with_credentials(proxy: Proxy) -> str:
    if proxy.credentials is None:
        return proxy.url
    user, password = (quote(each, safe="") for each in proxy.credentials)
    return f"{proxy.scheme}://{user}:{password}@{proxy.address}"
