"""Continuing a run with the results of client tools: the posted `tool` messages answer its calls."""

from dataclasses import replace

from app.bootstrap.services import Services
from app.http.ag_ui.input import AgUiInput
from app.http.ag_ui.resume import resume_segment
from app.http.ag_ui.segment import RunSegment
from app.requests.principal import Principal
from app.runs.chats import Chat


async def continue_segment(
    services: Services, caller: Principal, graph_id: str, *, posted: AgUiInput
) -> RunSegment | None:
    """The segment after the interrupts or calls that this input answers; None if it answers none.

    Raises `ScopeMissing` and what `resume_segment` raises.
    """
    results = posted.tool_results
    answered = None
    if results:
        chat = Chat(graph_id, posted.thread_id)
        answered = await services.client_tools.find(caller, chat, results, shown=posted.call_ids)
    if answered is not None:
        await services.client_tools.answer(answered, results)
    if posted.resume:
        segment = await resume_segment(services, caller, graph_id, posted=posted)
        if segment is None or answered is None:
            return segment
        return replace(segment, answered=answered.calls)
    if answered is None:
        return None
    return RunSegment(
        answered.record.key,
        answered.after,
        answered.log,
        stops_unread=answered.record.stops_unread,
        answered=answered.calls,
    )
