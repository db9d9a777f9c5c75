"""JSON of batches and their results."""

from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from app.http.api.runs.preview_schemas import ForecastResponse
from app.http.response_model import Moment, Money, ResponseModel
from app.requests.outcome import FinalUsage, GraphFinal
from app.runs.batches.lines import BatchLine
from app.runs.batches.records import Batch, BatchStatus
from app.runs.batches.requests import CheckedBatch
from app.runs.batches.service import ItemResult
from app.runs.forecasts.service import Forecast

_NOT_SHOWN = "Null for keys without `receipts:read`."
_Forecast = Annotated[
    ForecastResponse | None, Field(description="Of all items; null without earlier runs of the graph.")
]


class BatchCounts(ResponseModel):
    """How many items there are in each state; a run counts as ended once its receipts are there."""

    pending: int
    running: Annotated[int, Field(description="Started, and not counted as ended.")]
    succeeded: int
    failed: int
    cancelled: int
    refused: Annotated[int, Field(description="Their runs were refused with an error.")]


class BatchResponse(ResponseModel):
    """A batch and how far it has come."""

    batch_id: UUID
    graph_id: str
    status: BatchStatus
    reason: Annotated[
        str | None,
        Field(description="Why no further item is started: `cancelled`, `max_usd`, or the code of an error."),
    ]
    items: int
    counts: BatchCounts
    parallelism: int
    max_usd: Money | None
    cost_usd: Annotated[Money | None, Field(description=_NOT_SHOWN)]
    created_at: Moment
    ended_at: Moment | None

    @classmethod
    def of(cls, batch: Batch, cost_usd: Decimal | None, **computed: Any) -> Self:
        counts = BatchCounts.built_from(batch, running=batch.started)
        shown = {"batch_id": batch.id, "reason": batch.stop_reason, "cost_usd": cost_usd}
        return cls.built_from(batch, counts=counts, **shown, **computed)


class CreatedBatchResponse(BatchResponse):
    """A new batch, and what it is expected to cost."""

    forecast: _Forecast


class BatchPreviewResponse(ResponseModel):
    """A batch that could be started."""

    graph_id: str
    items: int
    forecast: _Forecast

    @classmethod
    def of(cls, checked: CheckedBatch, forecast: Forecast | None) -> Self:
        return cls.built_from(checked, items=len(checked.items), forecast=forecast)


class BatchResultResponse(ResponseModel):
    """An item that has ended: one line of a batch's results."""

    custom_id: str
    run_id: str | None
    status: Literal["succeeded", "failed", "cancelled", "refused"]
    result: Annotated[
        GraphFinal | None,
        Field(description="Null without an answer, and once the run's contents are deleted."),
    ]
    error: Annotated[str | None, Field(description="Why there is no result.")]
    cost_usd: Annotated[Money | None, Field(description=_NOT_SHOWN)]
    usage: FinalUsage

    @classmethod
    def of(cls, found: ItemResult, *, with_cost: bool) -> Self:
        item, run = found.item, found.run
        final = None if run is None else run.final
        is_deleted = run is not None and run.contents_deleted_at is not None
        answer = final if final is not None and final.ok and not is_deleted else None
        error = item.error or (None if final is None else final.error)
        if answer is None and error is None:
            error = "run_deleted" if is_deleted else "cancelled"
        return cls(
            custom_id=item.custom_id,
            run_id=None if run is None else run.key.run_id,
            status=item.status if run is None else run.status,
            result=answer,
            error=error,
            cost_usd=found.charged.cost_usd if with_cost else None,
            usage=FinalUsage() if final is None else final.usage,
        )


@cache
def line_schemas() -> dict[str, Any]:
    """Schemas of the lines that no request or response of JSON has, by name."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]]
    models = [(BatchLine, "validation"), (BatchResultResponse, "serialization")]
    _, schema = models_json_schema(models, ref_template="#/components/schemas/{model}")
    return {model.__name__: schema["$defs"][model.__name__] for model, _ in models}
