"""Conversations: list, read, change, fork, delete, and their branches."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Response

from app.bootstrap.services import Services
from app.http.admission.checks import CheckedRoute, small_body
from app.http.api.conversations import schemas
from app.http.api.conversations.export import EXPORTS, ExportFormat, export_conversation
from app.http.api.files.schemas import ConversationFiles
from app.http.dependencies import (
    Approver,
    Location,
    OpenExportReader,
    ReadWriter,
    RunReader,
    ServicesDep,
    Writer,
)
from app.http.openapi.headers import ATTACHED, LOCATED
from app.http.parameters import LabelParams, MomentParam, PageParams, StorableText, state_key_in_path
from app.http.response_model import Page
from app.http.streaming.line_export import LineExport
from app.platform.pagination import MAX_PAGE
from app.requests.principal import Principal
from app.runs.conversations.branching import BranchSummary
from app.runs.conversations.page import ConversationPage
from app.runs.conversations.records import ConversationFilter
from app.workspaces.records import NO_FILES

router = APIRouter(route_class=CheckedRoute, prefix="/v1/sessions", tags=["sessions"])

MAX_LINES = 1000
MAX_WORDS_CHARS = 200


StateKey: TypeAlias = Annotated[str, state_key_in_path("stateKey")]


async def _chosen(
    used_from: Annotated[
        MomentParam | None, Query(alias="from", description="When it was last used.")
    ] = None,
    used_to: Annotated[MomentParam | None, Query(alias="to", description="Exclusive.")] = None,
    words: Annotated[StorableText | None, Query(alias="q", max_length=MAX_WORDS_CHARS)] = None,
    *,
    pinned: bool | None = None,
    archived: bool | None = None,
    labels: LabelParams,
) -> ConversationFilter:
    return ConversationFilter(used_from, used_to, labels, pinned, archived, words)


@router.get("", summary="List conversations")
async def list_sessions(
    services: ServicesDep,
    caller: RunReader,
    page: PageParams,
    chosen: Annotated[ConversationFilter, Depends(_chosen)],
) -> Page[schemas.ListedConversation]:
    """Conversations of the key's account, most recently used first; those of which a run has the labels.

    With `q` those with words like these in the title, a message or an answer: all of them, `"a phrase"`,
    `or`, `-without`. Each page searches some conversations, and may be empty before the last one.
    """
    found = await services.conversations.list_conversations(caller, page, chosen)
    return Page.of(found, schemas.ListedConversation.model_validate)


@router.get("/{stateKey}", response_model_exclude_unset=True, summary="Read a conversation")
async def get_session(
    state_key: StateKey,
    services: ServicesDep,
    caller: RunReader,
    limit: Annotated[
        int, Query(ge=1, le=MAX_LINES, description="A page ends earlier once it holds 2 MiB.")
    ] = MAX_PAGE,
    cursor: str | None = None,
    branch: Annotated[UUID | None, Query(description="Another branch than the current one.")] = None,
) -> schemas.ConversationDetailResponse:
    """Its messages, run by run. Tool results hold only the fields that the tool allows clients to see."""
    page = await services.conversations.get_page(
        caller.account_id, state_key, limit=limit, cursor=cursor, branch_id=branch
    )
    return await _detail(services, caller, page)


@router.get(
    "/{stateKey}/export",
    summary="Export a conversation",
    response_class=Response,
    responses={200: {"description": "The document.", "content": EXPORTS, **ATTACHED}},
)
async def export_session(
    state_key: StateKey,
    services: ServicesDep,
    caller: RunReader,
    format_: Annotated[ExportFormat, Query(alias="format")] = "markdown",
    branch: Annotated[UUID | None, Query(description="Another branch than the current one.")] = None,
    *,
    open_reader: OpenExportReader,
) -> LineExport:
    """All its messages as one document: Markdown for people, or the JSON of all its pages."""
    branch_id = branch

    async def page_after(cursor: str | None) -> schemas.ConversationDetailResponse:
        nonlocal branch_id
        page = await services.conversations.get_page(
            caller.account_id, state_key, limit=MAX_LINES, cursor=cursor, branch_id=branch_id
        )
        # The current branch may be another one before the next page is read.
        branch_id = page.conversation.branch_id
        return await _detail(services, caller, page)

    scope = open_reader(caller, (caller.account_id, state_key))
    return await export_conversation(page_after, format_, reader_scope=scope)


@router.get("/{stateKey}/branches", summary="List a conversation's branches")
async def list_branches(
    state_key: StateKey, services: ServicesDep, caller: RunReader
) -> schemas.BranchesResponse:
    """The branches that regenerated answers and edited messages have begun, oldest first."""
    branches = await services.conversations.list_branches(caller.account_id, state_key)
    return await _branches(services, caller, branches)


@router.get("/{stateKey}/workspace", summary="List a conversation's files")
async def list_workspace(state_key: StateKey, services: ServicesDep, caller: RunReader) -> ConversationFiles:
    """What its next turn begins with, if its graph keeps the workspace; download it as files of `runId`."""
    run = await services.conversations.run_with_files(caller.account_id, state_key)
    if run is None:
        return ConversationFiles.of(NO_FILES, run_id=None)
    return ConversationFiles.of(await services.workspaces.listing(run), run_id=run.run_id)


@router.get("/{stateKey}/grants", summary="List what is allowed for a conversation")
async def list_grants(
    state_key: StateKey, services: ServicesDep, caller: RunReader
) -> Page[schemas.GrantResponse]:
    """The tools that `allow_conversation` has allowed, newest first; they always fit on one page."""
    grants = await services.conversations.list_grants(caller.account_id, state_key)
    return Page.of((grants, None), schemas.GrantResponse.of)


@router.delete("/{stateKey}/grants/{grantId}", status_code=204, summary="Revoke a grant")
async def revoke_grant(
    state_key: StateKey,
    grant_id: Annotated[UUID, Path(alias="grantId")],
    services: ServicesDep,
    caller: Approver,
) -> None:
    """A person is asked again about the next call of the tool, also in a run that is active."""
    await services.conversations.revoke_grant(caller.account_id, state_key, grant_id)


@router.put("/{stateKey}/branch", dependencies=[small_body], summary="Return to a branch")
async def return_to_branch(
    state_key: StateKey, body: schemas.CurrentBranch, services: ServicesDep, caller: ReadWriter
) -> schemas.BranchesResponse:
    """Continue the conversation on this branch; fails with 409 while one of its runs is active."""
    branches = await services.conversations.return_to_branch(caller.account_id, state_key, body.branch_id)
    return await _branches(services, caller, branches)


@router.post(
    "/{stateKey}/fork",
    status_code=201,
    responses={201: LOCATED},
    dependencies=[small_body],
    summary="Fork a conversation",
)
async def fork_session(
    state_key: StateKey,
    body: schemas.Fork,
    services: ServicesDep,
    caller: ReadWriter,
    response: Response,
    location: Location,
) -> schemas.ConversationResponse:
    """Copy a conversation up to a run into a new one.

    Needs `runs:read` as well: the agent can repeat everything in the copy.
    """
    copy = await services.conversations.fork(caller.account_id, state_key, at=body.at, new_key=body.state_key)
    response.headers["Location"] = location(f"/v1/sessions/{copy.state_key}")
    return schemas.ConversationResponse.model_validate(copy)


@router.patch("/{stateKey}", dependencies=[small_body], summary="Change a conversation")
async def change_session(
    state_key: StateKey, body: schemas.ChangedConversation, services: ServicesDep, caller: Writer
) -> schemas.ConversationResponse:
    """Rename, pin or archive it. The next run ends its archiving.

    Needs `runs:read` as well if it is a fork or another key has started one of its runs.
    """
    changed = await services.conversations.change(caller, state_key, body.change())
    return schemas.ConversationResponse.model_validate(changed)


@router.delete("/{stateKey}", status_code=204, summary="Delete a conversation")
async def delete_session(state_key: StateKey, services: ServicesDep, caller: Writer) -> None:
    """Delete its transcript, the files kept for it and what its runs contain. Their receipts stay.

    Needs `runs:read` as well if it is a fork or another key has started one of its runs.
    """
    await services.conversations.delete(caller, state_key)


async def _detail(
    services: Services, caller: Principal, page: ConversationPage
) -> schemas.ConversationDetailResponse:
    if not caller.may("receipts:read"):
        return schemas.ConversationDetailResponse.of_page(page, None)
    runs = [run.key.run_id for run in page.runs]
    return schemas.ConversationDetailResponse.of_page(
        page, await services.billing.totals(caller.account_id, runs)
    )


async def _branches(
    services: Services, caller: Principal, branches: Sequence[BranchSummary]
) -> schemas.BranchesResponse:
    if not caller.may("receipts:read"):
        return schemas.BranchesResponse.of(branches, None)
    runs = [run for branch in branches for run in branch.runs]
    return schemas.BranchesResponse.of(branches, await services.billing.totals(caller.account_id, runs))
