"""GenAiMetrics: the metrics of the GenAI semantic conventions; no attribute names a run, account or user."""

from collections.abc import Sequence

from opentelemetry.metrics import Histogram, Meter

from app.platform.telemetry.attributes import PROVIDER, Attributes, BoundedNames, clean, present

# The boundaries that the conventions recommend.
_SECONDS: Sequence[float] = (
    *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
)
_FIRST_CHUNK: Sequence[float] = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
_TOKENS: Sequence[float] = tuple(4**power for power in range(14))
_RUN_SECONDS: Sequence[float] = (*_SECONDS, 163.84, 327.68, 655.36, 1310.72)
_CALLS: Sequence[float] = (1, 2, 4, 8, 16, 32, 64, 128)


class GenAiMetrics:
    """Records what model calls, tools and runs took."""

    def __init__(self, meter: Meter) -> None:
        self._models = BoundedNames()
        self._tools = BoundedNames()

        def histogram(name: str, unit: str, bounds: Sequence[float]) -> Histogram:
            return meter.create_histogram(
                name, unit, explicit_bucket_boundaries_advisory=[*map(float, bounds)]
            )

        self._tokens = histogram("gen_ai.client.token.usage", "{token}", _TOKENS)
        self._operation = histogram("gen_ai.client.operation.duration", "s", _SECONDS)
        self._first_chunk = histogram("gen_ai.client.operation.time_to_first_chunk", "s", _FIRST_CHUNK)
        self._runs = histogram("gen_ai.invoke_agent.duration", "s", _RUN_SECONDS)
        self._inference_calls = histogram("gen_ai.invoke_agent.inference_calls", "{call}", _CALLS)
        self._tool_calls = histogram("gen_ai.invoke_agent.tool_calls", "{call}", _CALLS)
        self._tool_seconds = histogram("gen_ai.execute_tool.duration", "s", _SECONDS)

    def record_tokens(
        self, *, requested_model: str | None, model: str, input_tokens: int, output_tokens: int
    ) -> None:
        """The tokens of one receipt; `input_tokens` with reads and writes of the cache."""
        attributes = self._of_call(requested_model, model)
        self._tokens.record(input_tokens, {**attributes, "gen_ai.token.type": "input"})
        self._tokens.record(output_tokens, {**attributes, "gen_ai.token.type": "output"})

    def record_call(
        self, seconds: float, *, requested_model: str, model: str | None, error_type: str | None
    ) -> None:
        """One request to the provider."""
        attributes = self._of_call(requested_model, model)
        self._operation.record(seconds, {**attributes, **present({"error.type": error_type})})

    def record_first_chunk(self, seconds: float, *, requested_model: str) -> None:
        """How long the provider took to begin its answer."""
        self._first_chunk.record(seconds, self._of_call(requested_model, None))

    def record_run(
        self, seconds: float, *, graph_id: str, error_type: str | None, calls: int, tool_calls: int
    ) -> None:
        """One run; `calls` and `tool_calls` are those of its last attempt."""
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.agent.name": graph_id,
        }
        self._runs.record(seconds, {**attributes, **present({"error.type": error_type})})
        self._inference_calls.record(calls, attributes)
        self._tool_calls.record(tool_calls, attributes)

    def record_tool(self, seconds: float, *, tool: str, error_type: str | None) -> None:
        """One tool call; the model may have made up the tool's name."""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self._tools.limit(clean(tool)),
        }
        self._tool_seconds.record(seconds, {**attributes, **present({"error.type": error_type})})

    def _of_call(self, requested_model: str | None, model: str | None) -> Attributes:
        def limited(name: str | None) -> str | None:
            return None if name is None else self._models.limit(clean(name))

        return present(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": PROVIDER,
                "gen_ai.request.model": limited(requested_model),
                "gen_ai.response.model": limited(model),
            }
        )
