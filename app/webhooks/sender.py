"""WebhookSender: makes one HTTP call to a receiver."""

import asyncio
import ssl
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import httpx

from app.platform.tls import tls_context
from app.webhooks.addresses import AddressPolicy, AddressRefused, NameNotFound, UrlRefused
from app.webhooks.message import WebhookMessage
from app.webhooks.retries import ReceiverResponse, parse_response

CALL_S = 10.0
_CONNECT_S = 4.0
"""Timeout for each address; a host may have several."""


class WebhookSender:
    """Calls receivers; an async context manager.

    Uses a bare transport: a client would follow redirects to any address and store cookies. Connections are
    not reused, because two hosts with the same address would share them.
    """

    def __init__(
        self, addresses: AddressPolicy, *, call_s: float = CALL_S, authorities: ssl.SSLContext | None = None
    ) -> None:
        self._addresses = addresses
        self._call_s = call_s
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._transport = httpx.AsyncHTTPTransport(
            verify=authorities or tls_context(), trust_env=False, limits=limits
        )

    async def __aenter__(self) -> Self:
        """Open the transport."""
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""
        await self._transport.__aexit__(kind, error, trace)

    async def send(self, url: str, message: WebhookMessage) -> ReceiverResponse:
        """Post a message and return the status; the response body is not read."""
        try:
            async with asyncio.timeout(self._call_s):
                target = self._addresses.check_url(url)
                return await self._post(target, await self._addresses.resolve(target), message)
        except (AddressRefused, UrlRefused):
            return ReceiverResponse(problem="address_refused")
        except NameNotFound:
            return ReceiverResponse(problem="name_not_found")
        except (TimeoutError, httpx.TimeoutException):
            return ReceiverResponse(problem="timeout")
        except httpx.ConnectError:
            return ReceiverResponse(problem="connection_failed")
        except httpx.TransportError:
            return ReceiverResponse(problem="connection_lost")

    async def _post(self, url: httpx.URL, addresses: list[str], message: WebhookMessage) -> ReceiverResponse:
        """Try the addresses in order until one accepts a connection."""
        *others, last = addresses
        for address in others:
            try:
                return await self._post_to(url, address, message)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._post_to(url, last, message)

    async def _post_to(self, url: httpx.URL, address: str, message: WebhookMessage) -> ReceiverResponse:
        request = httpx.Request(
            "POST",
            url.copy_with(host=address),
            headers={"host": url.netloc.decode("ascii"), "connection": "close", **message.headers},
            content=message.body,
            extensions={
                # The certificate is checked against the host name, not the address.
                "sni_hostname": url.raw_host.decode("ascii"),
                "timeout": httpx.Timeout(self._call_s, connect=min(_CONNECT_S, self._call_s)).as_dict(),
            },
        )
        response = await self._transport.handle_async_request(request)
        await response.aclose()
        return parse_response(
            response.status_code, response.headers.get("retry-after"), now=datetime.now(UTC)
        )
