"""ModelCall: the span of one request to the provider, from what the gateway sees of it."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from opentelemetry.trace import SpanContext, SpanKind

from app.platform.telemetry.attributes import PROVIDER, Attributes, Value, clean, present
from app.platform.telemetry.backends import call_attributes
from app.platform.telemetry.content import ReceivedBody, input_messages, output_messages
from app.platform.telemetry.metrics import GenAiMetrics
from app.platform.telemetry.records import PricedAnswer, SpanOptions
from app.platform.telemetry.spans import FinishedSpan
from app.platform.telemetry.trace_context import headers_of
from app.usage.records import UsageFact

INCOMPLETE: Final = "incomplete"
"""The answer broke off, or the agent did not wait for it."""


class ModelCall:
    """One request to the provider, until its answer has ended."""

    def __init__(
        self,
        context: SpanContext,
        requested_model: str,
        *,
        common: Mapping[str, Value],
        options: SpanOptions,
        metrics: GenAiMetrics | None,
        on_end: Callable[[FinishedSpan, PricedAnswer | None], None],
    ) -> None:
        """`common`: attributes of all spans of the run. `on_end` gets the span."""
        self._context = context
        self._requested_model = clean(requested_model)
        self._common = common
        self._options = options
        self._metrics = metrics
        self._on_end = on_end
        self._started_ns = time.time_ns()
        self._started = time.perf_counter()
        self._first_chunk_s: float | None = None
        self._error: str | None = None
        self._server: Attributes = {}
        self._request = b""
        self._received = ReceivedBody() if options.captures_content else None

    def send_to(self, host: str, port: int | None, body: bytes) -> list[tuple[bytes, bytes]]:
        """The request is sent there; returns the headers that make this span its parent."""
        self._server = present({"server.address": clean(host), "server.port": port})
        if self._received is not None:
            self._request = body
        return headers_of(self._context)

    def fail(self, error: str) -> None:
        """The call failed: with an HTTP status, or before it had one. The first error counts."""
        self._error = self._error or error

    def receive(self, chunk: bytes) -> None:
        """A piece of the answer arrived."""
        if self._first_chunk_s is None:
            self._first_chunk_s = time.perf_counter() - self._started
        if self._received is not None:
            self._received.add(chunk)

    def end(self, answer: PricedAnswer | None) -> None:
        """The call has ended; without an answer nothing is charged."""
        seconds = time.perf_counter() - self._started
        if answer is None or answer.fact.stop_reason is None:
            self.fail(INCOMPLETE)
        model = None if answer is None else clean(answer.fact.model)
        if self._metrics is not None:
            self._metrics.record_call(
                seconds, requested_model=self._requested_model, model=model, error_type=self._error
            )
            if self._first_chunk_s is not None:
                self._metrics.record_first_chunk(self._first_chunk_s, requested_model=self._requested_model)
        span = FinishedSpan(
            f"chat {self._requested_model}",
            self._context,
            self._started_ns,
            self._started_ns + int(seconds * 1e9),
            self._attributes(answer) if self._context.trace_flags.sampled else {},
            kind=SpanKind.CLIENT,
            is_error=self._error is not None,
        )
        self._on_end(span, answer)

    def _attributes(self, answer: PricedAnswer | None) -> Attributes:
        attributes = {
            **self._common,
            **self._server,
            **present(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": PROVIDER,
                    "gen_ai.request.model": self._requested_model,
                    "gen_ai.response.time_to_first_chunk": self._first_chunk_s,
                    "error.type": self._error,
                }
            ),
        }
        if answer is not None:
            attributes |= _of_answer(answer)
        if self._received is not None:
            attributes |= present(
                {
                    "gen_ai.input.messages": input_messages(self._request),
                    "gen_ai.output.messages": output_messages(self._received.text()),
                }
            )
        return attributes | call_attributes(self._options.backends, self._requested_model, attributes, answer)


def _of_answer(answer: PricedAnswer) -> Attributes:
    fact = answer.fact
    return present(
        {
            "gen_ai.response.id": clean(fact.message_id),
            "gen_ai.response.model": clean(fact.model),
            "gen_ai.response.finish_reasons": _reasons(fact),
            **_usage(fact),
            "anthropic.request.id": fact.call.provider_request_id,
            "anthropic.organization.id": fact.call.provider_organization_id,
            "anthropic.workspace.id": fact.call.provider_workspace_id,
            "runtally.source_reference": clean(fact.source_reference),
            "runtally.cost_usd": f"{answer.cost_usd:f}",
        }
    )


def _reasons(fact: UsageFact) -> tuple[str, ...] | None:
    return None if fact.stop_reason is None else (clean(fact.stop_reason),)


def _usage(fact: UsageFact) -> Attributes:
    usage = fact.usage
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        # The conventions' name, and the one of the provider's own client.
        "gen_ai.usage.cache_creation.input_tokens": written,
        "gen_ai.usage.cache_write.input_tokens": written,
        "anthropic.usage.cache_creation.ephemeral_5m_input_tokens": usage.cache_write_5m_tokens,
        "anthropic.usage.cache_creation.ephemeral_1h_input_tokens": usage.cache_write_1h_tokens,
    }
