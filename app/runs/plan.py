"""What a request amounts to: its graph, model, tools and limits; raises what is wrong with it."""

from dataclasses import dataclass
from datetime import timedelta

import jsonschema

from app.errors import FieldError, Invalid
from app.executors.catalog import GraphCatalog, GraphSpec
from app.executors.models import ModelRegistry
from app.executors.port import RunContext
from app.graph import GraphRunRequest, ResponseFormat
from app.ids import RunKey
from app.tools.catalog import ToolCatalog
from app.tools.tool import Tool

FIRST_ATTEMPT = 0


@dataclass(frozen=True, slots=True)
class Planner:
    """Resolves requests against the catalogues."""

    graphs: GraphCatalog
    models: ModelRegistry
    tools: ToolCatalog
    timeout: timedelta
    """The server's deadline: the longest a run may take."""

    def plan(self, run: RunKey, request: GraphRunRequest, *, request_id: str | None) -> RunContext:
        """The run as it would be carried; raises `GraphNotFound` or `Invalid` naming the field."""
        spec = self.graphs.get(request.graph_id)
        if request.response_format is not None:
            _check_schema(request.response_format)
        limits = request.limits.tightest(spec.limits)
        seconds = self.timeout.total_seconds()
        return RunContext(
            run=run,
            attempt=FIRST_ATTEMPT,
            spec=spec,
            model=self.models.resolve(request.model, spec.model),
            tools=self._tools(request, spec),
            limits=limits,
            timeout=timedelta(seconds=min(seconds, limits.timeout_s or seconds)),
            request_id=request_id,
        )

    def _tools(self, request: GraphRunRequest, spec: GraphSpec) -> tuple[Tool, ...]:
        if request.tool_ids is None:
            return tuple(self.tools.get(tool_id) for tool_id in spec.tools)
        errors = [
            FieldError(f"toolIds.{index}", f"the graph {spec.id} has no tool {tool_id!r}")
            for index, tool_id in enumerate(request.tool_ids)
            if tool_id not in spec.tools
        ]
        if errors:
            message = f"toolIds: {errors[0].message}"
            raise Invalid(message, errors=errors)
        return tuple(self.tools.get(tool_id) for tool_id in dict.fromkeys(request.tool_ids))


def _check_schema(wanted: ResponseFormat) -> None:
    try:
        jsonschema.Draft202012Validator.check_schema(wanted.schema_)
    except jsonschema.SchemaError as error:
        raise Invalid.field("responseFormat.schema", "is not a valid JSON schema") from error
    if wanted.schema_.get("type") != "object":
        raise Invalid.field("responseFormat.schema", "must describe an object (type: object)")
