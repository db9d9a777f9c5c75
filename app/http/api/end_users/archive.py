"""Everything that is kept about an end user, as an archive that is written while it is read."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress

from app.bootstrap.services import Services
from app.http.api.conversations.schemas import ConversationDetailResponse
from app.http.api.receipts.schemas import ReceiptResponse
from app.http.api.runs.schemas import EvidenceResponse, RunResponse
from app.platform.pagination import MAX_PAGE, PageRequest
from app.requests.attribution import LabelFilter
from app.requests.principal import Principal
from app.runs.conversations.service import ConversationNotFound
from app.runs.deletion.service import RunDeleted
from app.runs.records import RunFilter, RunRecord
from app.streams.event_json import to_json
from app.workspaces.archive import Archive
from app.workspaces.records import GivenFile
from app.workspaces.service import FilesExpired


async def archive_of(services: Services, caller: Principal, end_user: str) -> AsyncIterator[bytes]:
    """A ZIP archive: a folder for each run, a file for each conversation, and the requests of schedules.

    Evidence and receipts are in it as far as the caller may read them.
    """
    archive = Archive("zip")
    state_keys: dict[str, None] = {}
    async for run in _runs_of(services, caller, end_user):
        async for file in _files_of_run(services, caller, run):
            yield await asyncio.to_thread(archive.add, file)
        if run.state_key is not None:
            state_keys[run.state_key] = None
    for state_key in state_keys:
        with suppress(ConversationNotFound):
            async for file in _conversation(services, caller, state_key):
                yield await asyncio.to_thread(archive.add, file)
    planned = await services.schedules.requests_for(caller.account_id, end_user)
    yield archive.add(_lines("schedules.jsonl", planned))
    yield archive.end()


async def _runs_of(services: Services, caller: Principal, end_user: str) -> AsyncIterator[RunRecord]:
    chosen = RunFilter(labels=LabelFilter(end_user))
    cursor: str | None = None
    while True:
        page = PageRequest.of(MAX_PAGE, cursor)
        found, cursor = await services.runs.list_runs(caller.account_id, page, chosen)
        for run in found:
            yield run
        if cursor is None:
            return


async def _files_of_run(services: Services, caller: Principal, run: RunRecord) -> AsyncIterator[GivenFile]:
    folder = f"runs/{run.key.run_id}"
    traffic = await services.workspaces.traffic(caller.account_id, [run.key.run_id])
    yield _lines(
        f"{folder}/run.json",
        [RunResponse.of(run, None, traffic[run.key.run_id]).model_dump_json(by_alias=True)],
    )
    if (request := await services.runs.request(run.key)) is not None:
        yield _lines(f"{folder}/request.json", [request])
    with suppress(RunDeleted):
        events = await services.runs.events(run.key)
        yield _lines(f"{folder}/events.jsonl", [to_json(entry.event) for entry in events])
    if caller.may("runs:audit"):
        with suppress(RunDeleted):
            yield _lines(f"{folder}/evidence.jsonl", [line async for line in _evidence(services, run)])
    if caller.may("receipts:read"):
        receipts = await services.billing.of_run(run.key)
        shown = [ReceiptResponse.model_validate(each).model_dump_json(by_alias=True) for each in receipts]
        yield _lines(f"{folder}/receipts.jsonl", shown)
    with suppress(FilesExpired):
        for file in (await services.workspaces.listing(run.key)).files:
            content = await services.workspaces.read(run.key, file.path)
            yield GivenFile(f"{folder}/files/{file.path}", content, file.is_executable)


async def _evidence(services: Services, run: RunRecord) -> AsyncIterator[str]:
    after = 0
    while found := await services.runs.evidence(run.key, after=after, limit=MAX_PAGE):
        for each in found:
            yield EvidenceResponse.model_validate(each).model_dump_json(by_alias=True)
        after = found[-1].position


async def _conversation(services: Services, caller: Principal, state_key: str) -> AsyncIterator[GivenFile]:
    """A file for each page of messages, which has a bounded size."""
    cursor: str | None = None
    number = 1
    while True:
        page = await services.conversations.get_page(
            caller.account_id, state_key, limit=MAX_PAGE, cursor=cursor
        )
        shown = ConversationDetailResponse.of_page(page, None).model_dump_json(by_alias=True)
        yield _lines(f"conversations/{state_key}/{number}.json", [shown])
        if (cursor := page.next_cursor) is None:
            return
        number += 1


def _lines(path: str, lines: Iterable[str]) -> GivenFile:
    return GivenFile(path, "".join(f"{line}\n" for line in lines).encode(), is_executable=False)
