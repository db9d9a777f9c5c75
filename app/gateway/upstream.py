"""Upstream: the client for the provider's Messages API; the only holder of its key."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2
import structlog

from app.gateway.provider_refusals import ProviderRefusals
from app.platform.clock.clock import Clock
from app.platform.hops import reason_of
from app.platform.http1 import REQUEST_WRITTEN
from app.platform.logs.dependency import QUIET_S, DependencyLog
from app.platform.network import DIRECT, Network
from app.platform.outgoing import HttpSender
from app.usage.provider import count_of

log = structlog.get_logger(__name__)

MESSAGES = "/v1/messages"
COUNT_TOKENS = "/v1/messages/count_tokens"

_CONNECT_S = 10.0
_COUNT_S = 2.0
_COUNT_BYTES = 64 * 1024
_COUNT_ERRORS = (TimeoutError, httpx2.HTTPError, ValueError, KeyError, TypeError, RecursionError)
_COUNTED_FIELDS = ("model", "messages", "system", "tools", "tool_choice", "thinking")
_IDLE_S = 60.0
_REFUSED = {401, 403}
_VERSION = {"anthropic-version": "2023-06-01"}
_PROFILE = b"anthropic-user-profile-id"
_BETAS = b"anthropic-beta"
_PROFILES_BETA = b"user-profiles-2026-09-04"
_REPLACED_HEADERS = {
    _PROFILE,
    *(b"host", b"content-length", b"accept-encoding", b"content-encoding"),
    *(b"x-api-key", b"authorization", b"proxy-authorization", b"cookie"),
    *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding"),
    *(b"upgrade", b"expect"),
}
"""Headers of the agent that are replaced: connection, key and user profile are ours."""


class Upstream(HttpSender):
    """`async with Upstream(...) as provider:` keeps connections open between runs."""

    def __init__(
        self, *, base_url: str, api_key: str | None, clock: Clock | None = None, network: Network = DIRECT
    ) -> None:
        """`clock` gets the time of every response."""
        timeout = httpx2.Timeout(None, connect=_CONNECT_S)
        super().__init__(timeout, network=network, idle_s=_IDLE_S, has_streams=True)
        self._clock = clock
        self._base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._overheads: dict[str, int] = {}
        self.availability = DependencyLog(
            unavailable="gateway.provider_unreachable",
            available="gateway.provider_reachable",
            quiet_s=QUIET_S,
        )
        """Whether calls get any response."""
        self.refusals = ProviderRefusals()

    @property
    def has_key(self) -> bool:
        """Whether there is a key to call with."""
        return self._api_key is not None

    def request(
        self,
        path: str,
        body: bytes,
        headers: Iterable[tuple[bytes, bytes]],
        *,
        query: bytes = b"",
        sent: Callable[[], None] | None = None,
        profile_id: str | None = None,
    ) -> httpx2.Request:
        """An agent's request as the provider gets it; `sent` is called once it was written completely.

        `profile_id`: the user profile that the provider reports the call under.
        """
        passed = [(name, value) for name, value in headers if name.lower() not in _REPLACED_HEADERS]
        if profile_id is not None:
            passed = _with_profile(passed, profile_id)
        ours = [(b"x-api-key", (self._api_key or "").encode()), (b"accept-encoding", b"identity")]
        url = f"{self._base_url}{path}" + (f"?{query.decode()}" if query else "")
        extensions = {} if sent is None else {"trace": _trace(sent)}
        return httpx2.Request("POST", url, content=body, headers=passed + ours, extensions=extensions)

    async def problem(self) -> str | None:
        """The problem with the key, for the operator; None if none is known.

        Lists the provider's models, which is free. A base URL without that list counts as no problem.
        """
        if self._api_key is None:
            return "ANTHROPIC_API_KEY is not set: every run will end with provider_unavailable"
        headers = {"x-api-key": self._api_key, **_VERSION}
        try:
            request = httpx2.Request(
                "GET", f"{self._base_url}/v1/models", headers=headers, params={"limit": 1}
            )
            async with asyncio.timeout(_CONNECT_S):
                response = await self.send(request)
                await response.aclose()
        except (TimeoutError, httpx2.HTTPError) as error:
            self.availability.failed(reason := reason_of(error))
            return f"ANTHROPIC_BASE_URL cannot be reached: {reason}"
        self.availability.worked()
        if response.status_code in _REFUSED:
            return f"ANTHROPIC_API_KEY was refused by the provider ({response.status_code})"
        return None

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; the caller must read and close the response's body."""
        return await self._send(request)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        response = await super()._send(request)
        if self._clock is not None and (at := _date_of(response)) is not None:
            self._clock.observe("provider", at)
        return response

    async def count(self, model: str, text: str) -> int | None:
        """The number of tokens of a text, counted by the provider; None if it cannot be reached."""
        if not text:
            return 0
        try:
            async with asyncio.timeout(_COUNT_S):
                if model not in self._overheads:
                    # A message has a few tokens besides its text; the shortest message shows how many.
                    self._overheads[model] = await self._counted(model, ".") - 1
                return max(0, await self._counted(model, text) - self._overheads[model])
        except _COUNT_ERRORS as error:
            log.warning("gateway.count_failed", reason=reason_of(error))
            return None

    async def count_prompt(self, body: bytes) -> int | None:
        """The number of tokens of a request's prompt; None if the provider cannot be reached."""
        try:
            request = json.loads(body)
            async with asyncio.timeout(_COUNT_S):
                return await self._input_tokens(
                    {name: request[name] for name in _COUNTED_FIELDS if name in request}
                )
        except _COUNT_ERRORS as error:
            log.warning("gateway.count_failed", reason=reason_of(error))
            return None

    async def _counted(self, model: str, text: str) -> int:
        return await self._input_tokens({"model": model, "messages": [{"role": "user", "content": text}]})

    async def _input_tokens(self, fields: Mapping[str, Any]) -> int:
        headers = httpx2.Headers({"content-type": "application/json", **_VERSION}).raw
        request = self.request(COUNT_TOKENS, json.dumps(fields).encode(), headers)
        response = (await self._fetch(request, max_bytes=_COUNT_BYTES)).raise_for_status()
        count = count_of(json.loads(response.content)["input_tokens"])
        if count is None:
            raise ValueError
        return count


def _with_profile(headers: list[tuple[bytes, bytes]], profile_id: str) -> list[tuple[bytes, bytes]]:
    """With the profile, and with its beta among those of the agent."""
    betas = [value for name, value in headers if name.lower() == _BETAS]
    others = [(name, value) for name, value in headers if name.lower() != _BETAS]
    return [*others, (_BETAS, b",".join([*betas, _PROFILES_BETA])), (_PROFILE, profile_id.encode())]


def _date_of(response: httpx2.Response) -> datetime | None:
    """The provider's time; None if it sends none that can be read."""
    try:
        return parsedate_to_datetime(response.headers.get("date", "")).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _trace(sent: Callable[[], None]) -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
    async def trace(event: str, _info: Mapping[str, Any]) -> None:
        if event == REQUEST_WRITTEN:
            sent()

    return trace
