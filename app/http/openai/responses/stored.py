"""Reading what is kept of a run."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from app.bootstrap.services import Services
from app.http.openai.responses.items import Item, StoredRun
from app.http.streaming.pausing import waiting_calls
from app.requests.messages import Message
from app.runs.records import RunRecord

_ENTRY_BYTES: Final = 100


async def read_items(
    services: Services, record: RunRecord, make: Callable[[StoredRun], list[Item]]
) -> tuple[list[Item], int]:
    """What `make` makes of all that is kept of a run, and about its size; raises `RunDeleted`."""
    # Its images are large, and most items are made without them.
    async with services.runs.codec.large_request(record.key.account_id):
        run = await _stored_run(services, record)
        return await services.offload.run(partial(make, run), size=run.size), run.size


async def _stored_run(services: Services, record: RunRecord) -> StoredRun:
    entries = await services.runs.events(record.key)
    stored = await services.runs.request(record.key) or "{}"

    def read() -> tuple[dict[str, Any], list[Message]]:
        request = json.loads(stored)
        return request, [Message.model_validate(each) for each in request.get("messages", ())]

    request, messages = await services.offload.run(read, size=len(stored))
    return StoredRun(
        record,
        messages,
        is_object=request.get("responseFormat") is not None,
        entries=entries,
        waits=await waiting_calls(services, record.key),
        size=len(stored) + len(entries) * _ENTRY_BYTES,
    )
