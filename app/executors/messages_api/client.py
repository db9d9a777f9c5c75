"""MessagesClient: the official client of the Messages API, whose server is a run's gateway channel."""

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast

import httpx2

from app.gateway.channel import Channel
from app.platform.server.in_process import InProcessTransport
from app.platform.server.loopback import AsgiApp

if TYPE_CHECKING:
    import anthropic

HEADERS_TIMEOUT_S = 60.0
IDLE_TIMEOUT_S = 30.0
"""How long nothing may arrive of a message that has begun; the provider sends pings."""

_NO_EVENT = "an event is no object"
_BETA_FIELDS = {"context_management"}


class CallFailed(Exception):
    """A call got no message; `status` is that of the response, None if there was none."""

    def __init__(
        self, status: int | None, reason: str, *, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.status = status
        self.headers = headers
        self.reason = reason
        """May contain the provider's text: for the log only."""
        super().__init__(reason)


class StreamBroken(Exception):
    """A message that had begun was cut off."""


class MessagesClient:
    """`async with MessagesClient(gateway.handle) as client:`; one for all runs of the process."""

    def __init__(self, gateway: AsgiApp) -> None:
        transport = InProcessTransport(gateway, idle_timeout_s=IDLE_TIMEOUT_S)
        self._http = httpx2.AsyncClient(transport=transport, trust_env=False, timeout=None)
        self._loading = asyncio.Lock()
        self._client: anthropic.AsyncAnthropic | None = None

    async def load(self) -> None:
        """Import the official client when it is first needed: that takes a second and 35 MB."""
        async with self._loading:
            if self._client is None:
                self._client = _open(await asyncio.to_thread(import_sdk), self._http)

    async def __aenter__(self) -> Self:
        """Open."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Wait for the calls that have not ended."""
        await self._http.aclose()

    @asynccontextmanager
    async def stream(
        self, channel: Channel, request: Mapping[str, Any], *, betas: tuple[str, ...] = ()
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """Make a call; yields the events of the message as the API sends them.

        Raises `CallFailed` if no message begins, and `StreamBroken` while one is read.
        """
        await self.load()
        import anthropic

        client = cast("anthropic.AsyncAnthropic", self._client).with_options(base_url=channel.url)
        # What only the beta of the API has is no parameter of the client's method.
        known = {name: value for name, value in request.items() if name not in _BETA_FIELDS}
        others = {name: value for name, value in request.items() if name in _BETA_FIELDS}
        call: Any = client.messages.with_streaming_response.create
        async with AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(
                    call(
                        **known,
                        stream=True,
                        extra_body=others or None,
                        extra_headers={"anthropic-beta": ",".join(betas)} if betas else None,
                    )
                )
            except anthropic.APIStatusError as error:
                headers = error.response.headers
                raise CallFailed(error.status_code, str(error), headers=headers) from error
            except anthropic.APIError as error:
                raise CallFailed(None, str(error)) from error
            yield _events(
                cast("AsyncIterator[Any]", anthropic.AsyncStream.raw_events(response.http_response))
            )


def import_sdk() -> Any:
    """Import the official client: the first time that takes a second, so not on the event loop."""
    return importlib.import_module("anthropic")


def _open(sdk: Any, http: httpx2.AsyncClient) -> "anthropic.AsyncAnthropic":
    client: anthropic.AsyncAnthropic = sdk.AsyncAnthropic(
        # Valid nowhere: the gateway adds the provider's key.
        api_key="channel",
        base_url="http://gateway",
        http_client=http,
        # Clients of the run are told before a call is made again.
        max_retries=0,
        timeout=HEADERS_TIMEOUT_S,
        open_telemetry=False,
    )
    return client


async def _events(events: AsyncIterator[Any]) -> AsyncIterator[dict[str, Any]]:
    try:
        async for event in events:
            if event.event == "error":
                raise StreamBroken(event.data)
            if event.event != "ping" and event.data:
                yield _parsed(event.data)
            # Readers of the run get this event before the next is parsed.
            await asyncio.sleep(0)
    except (httpx2.HTTPError, UnicodeDecodeError) as error:
        raise StreamBroken(type(error).__name__) from error


def _parsed(data: str) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StreamBroken(type(error).__name__) from error
    if not isinstance(event, dict):
        raise StreamBroken(_NO_EVENT)
    return event
