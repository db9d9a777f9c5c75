"""Reading what is kept of a run."""

import json
from typing import Any, Final

from app.bootstrap.services import Services
from app.http.openai.responses.items import StoredRun
from app.http.streaming.pausing import waiting_calls
from app.requests.messages import Message
from app.runs.records import RunRecord

_ENTRY_BYTES: Final = 100


async def stored_run(services: Services, record: RunRecord) -> StoredRun:
    """All of a run's items follow from this; raises `RunDeleted`."""
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
