"""Opens telemetry, if it is switched on."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from uuid import UUID

import anyio

from app.billing.receipts.records import NewReceipt
from app.bootstrap.telemetry.config import telemetry_config
from app.platform.background import forever
from app.platform.settings import Settings
from app.platform.telemetry.config import TelemetryUnavailable
from app.platform.telemetry.service import Telemetry

_NO_SDK = (
    "Telemetry is switched on by a variable OTEL_*, and its packages are missing: "
    "pip install 'runtally[telemetry]', or set OTEL_SDK_DISABLED=true."
)


async def open_telemetry(settings: Settings, process_id: UUID, stack: AsyncExitStack) -> Telemetry:
    """Export until the stack is closed; raises `TelemetryUnavailable`."""
    config = telemetry_config(settings)
    if not config.destinations:
        return Telemetry()
    try:
        from app.platform.telemetry.sdk.opening import open_sdk
    except ImportError as error:
        raise TelemetryUnavailable(_NO_SDK) from error
    telemetry = await stack.enter_async_context(open_sdk(config, instance_id=str(process_id)))
    tasks = await stack.enter_async_context(anyio.create_task_group())
    stack.callback(tasks.cancel_scope.cancel)
    for relay in telemetry.clients.values():
        # What a receiver answers, or a header that cannot be sent, ends no server.
        tasks.start_soon(partial(forever, relay.send, 0, name="telemetry.clients"))
    return telemetry


def record_receipts(telemetry: Telemetry, receipts: Sequence[NewReceipt]) -> None:
    """Record the tokens of receipts that were stored: their sums are those of the metric."""
    if (metrics := telemetry.metrics) is None:
        return
    for receipt in receipts:
        metrics.record_tokens(
            requested_model=receipt.requested_model,
            model=receipt.model,
            input_tokens=receipt.usage.prompt_tokens,
            output_tokens=receipt.output_tokens,
        )
