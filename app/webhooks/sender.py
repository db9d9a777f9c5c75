"""WebhookSender: makes one HTTP call to a receiver."""

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus

import httpx2

from app.platform.network import DIRECT, Network
from app.platform.outgoing import HttpSender
from app.platform.ssrf_guard import AddressPolicy, AddressRefused, NameNotFound, UrlRefused
from app.webhooks.message import WebhookMessage
from app.webhooks.retries import ReceiverResponse, parse_response

CALL_S = 10.0
_MOST_READ = 16_384
_CONNECT_S = 4.0
"""Timeout for each address; a host may have several."""


class WebhookSender(HttpSender):
    """Calls receivers; an async context manager.

    Connections are not reused, because two hosts with the same address would share them.
    """

    def __init__(
        self, addresses: AddressPolicy, *, call_s: float = CALL_S, network: Network = DIRECT
    ) -> None:
        timeout = httpx2.Timeout(call_s, connect=min(_CONNECT_S, call_s))
        super().__init__(timeout, network=network, idle_s=0)
        self._addresses = addresses
        self._call_s = call_s

    async def send(self, url: str, message: WebhookMessage) -> ReceiverResponse:
        """Post a message and return the status; a response body is read only to find a duplicate."""
        try:
            async with asyncio.timeout(self._call_s):
                target = self._addresses.check_url(url)
                return await self._post(target, await self._addresses.resolve(target), message)
        except (AddressRefused, UrlRefused):
            return ReceiverResponse(problem="address_refused")
        except NameNotFound:
            return ReceiverResponse(problem="name_not_found")
        except (TimeoutError, httpx2.TimeoutException):
            return ReceiverResponse(problem="timeout")
        except httpx2.ConnectError:
            return ReceiverResponse(problem="connection_failed")
        except httpx2.TransportError:
            return ReceiverResponse(problem="connection_lost")

    async def _post(self, url: httpx2.URL, addresses: list[str], message: WebhookMessage) -> ReceiverResponse:
        """Try the addresses in order until one accepts a connection."""
        *others, last = addresses
        for address in others:
            try:
                return await self._post_to(url, address, message)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._post_to(url, last, message)

    async def _post_to(self, url: httpx2.URL, address: str, message: WebhookMessage) -> ReceiverResponse:
        request = httpx2.Request(
            "POST",
            url.copy_with(host=address),
            headers={"host": url.netloc.decode("ascii"), "connection": "close", **message.headers},
            content=message.body,
            # The certificate is checked against the host name, not the address.
            extensions={"sni_hostname": url.raw_host.decode("ascii")},
        )
        response = await self._send(request)
        try:
            is_duplicate = response.status_code == HTTPStatus.BAD_REQUEST and await _says(
                response, message.duplicate
            )
        finally:
            await response.aclose()
        return parse_response(
            response.status_code,
            response.headers.get("retry-after"),
            now=datetime.now(UTC),
            is_duplicate=is_duplicate,
        )


async def _says(response: httpx2.Response, text: bytes | None) -> bool:
    """Whether this text is in the first bytes of a body."""
    if text is None:
        return False
    body = b""
    async for block in response.aiter_raw():
        body += block[: _MOST_READ - len(body)]
        if len(body) >= _MOST_READ:
            break
    return text in body
