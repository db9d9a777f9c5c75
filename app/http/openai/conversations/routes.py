"""Routes of conversations and their items."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Path, Response
from fastapi.responses import JSONResponse

from app.http.admission.checks import CheckedRoute, small_body
from app.http.dependencies import ApprovalsPage, ReadWriter, RunReader, ServicesDep, Writer
from app.http.openai.conversations import schemas
from app.http.openai.conversations.items import ItemFollowed, find_item, opening_items, page_of_items
from app.http.openai.errors import ERROR_RESPONSES, PATH
from app.http.openai.responses.listing import HasImages, ItemPage, ItemParams, item_list
from app.http.openai.responses.openapi import ITEMS
from app.http.openai.responses.schemas import ResponseItem
from app.http.parameters import state_key_in_path
from app.runs.conversations.opened import (
    ConversationBegun,
    change_opened,
    create_conversation,
    opened_conversation,
)
from app.runs.conversations.records import Opening

router = APIRouter(
    route_class=CheckedRoute, prefix=f"{PATH}/conversations", tags=["openai"], responses=ERROR_RESPONSES
)


ConversationId: TypeAlias = Annotated[str, state_key_in_path("conversationId")]
ItemId: TypeAlias = Annotated[str, Path(alias="itemId")]


@router.post("", dependencies=[small_body], summary="Create a conversation")
async def create_openai_conversation(
    body: schemas.NewConversation, services: ServicesDep, caller: Writer
) -> schemas.OpenAiConversation:
    """Its items are what its first run gets as earlier turns."""
    messages = schemas.posted_messages(body.items, services.attachments)
    opening = Opening(api_key_id=caller.api_key_id, metadata=body.metadata or {}, messages=messages)
    conversation = await create_conversation(services.conversations, caller, opening)
    return schemas.OpenAiConversation.of(conversation, opening)


@router.get("/{conversationId}", summary="Read a conversation's metadata")
async def get_openai_conversation(
    conversation_id: ConversationId, services: ServicesDep, caller: RunReader
) -> schemas.OpenAiConversation:
    """Any conversation, also one that began with a run."""
    opened = await opened_conversation(services.conversations, caller, conversation_id)
    return schemas.OpenAiConversation.of(opened.conversation, opened.opening)


@router.post("/{conversationId}", dependencies=[small_body], summary="Change a conversation's metadata")
async def change_openai_conversation(
    conversation_id: ConversationId, body: schemas.ChangedMetadata, services: ServicesDep, caller: ReadWriter
) -> schemas.OpenAiConversation:
    """Replace its metadata, which are not those of its runs."""

    def changed(opening: Opening) -> Opening:
        return opening.model_copy(update={"metadata": body.metadata or {}})

    opened = await change_opened(services.conversations, caller, conversation_id, changed)
    return schemas.OpenAiConversation.of(opened.conversation, opened.opening)


@router.delete("/{conversationId}", summary="Delete a conversation and its items")
async def delete_openai_conversation(
    conversation_id: ConversationId, services: ServicesDep, caller: Writer
) -> schemas.DeletedConversation:
    """Delete its transcript and what its runs contain; fails with 409 while one is active."""
    await services.conversations.delete(caller, conversation_id)
    return schemas.DeletedConversation(id=conversation_id)


@router.get("/{conversationId}/items", response_model=None, responses=ITEMS, summary="List the items")
async def list_openai_conversation_items(
    conversation_id: ConversationId,
    services: ServicesDep,
    caller: RunReader,
    chosen: ItemParams,
    page: ApprovalsPage,
) -> Response:
    """What its runs were asked and have answered; before the first one, what it was created with."""
    opened = await opened_conversation(services.conversations, caller, conversation_id)
    listed, size = await page_of_items(services, opened, chosen, page=page)
    return await item_list(services, listed, size=size)


@router.post(
    "/{conversationId}/items",
    dependencies=[small_body],
    response_model=None,
    responses=ITEMS,
    summary="Add items before the first response",
)
async def create_openai_conversation_items(
    conversation_id: ConversationId,
    body: schemas.NewItems,
    services: ServicesDep,
    caller: ReadWriter,
    has_images: HasImages,
) -> Response:
    """Later, items are added with a response: they are its input."""
    messages = schemas.posted_messages(body.items, services.attachments)

    def changed(opening: Opening) -> Opening:
        return opening.model_copy(update={"messages": (*opening.messages, *messages)})

    opened = await change_opened(services.conversations, caller, conversation_id, changed)
    added = opening_items(opened, has_images=has_images)[-len(messages) :]
    return await item_list(services, ItemPage(added, has_more=False), size=0)


@router.get(
    "/{conversationId}/items/{itemId}",
    response_model=None,
    responses={200: {"model": ResponseItem}},
    summary="Read an item",
)
async def get_openai_conversation_item(
    conversation_id: ConversationId,
    item_id: ItemId,
    services: ServicesDep,
    caller: RunReader,
    page: ApprovalsPage,
    has_images: HasImages,
) -> Response:
    """One of those that are listed."""
    opened = await opened_conversation(services.conversations, caller, conversation_id)
    return JSONResponse(await find_item(services, opened, item_id, page=page, has_images=has_images))


@router.delete("/{conversationId}/items/{itemId}", summary="Delete the last item before the first response")
async def delete_openai_conversation_item(
    conversation_id: ConversationId,
    item_id: ItemId,
    services: ServicesDep,
    caller: ReadWriter,
) -> schemas.OpenAiConversation:
    """All others are what its runs were asked and have answered, or are followed by one: 409."""
    before = await opened_conversation(services.conversations, caller, conversation_id)
    await find_item(services, before, item_id)

    def changed(opening: Opening) -> Opening:
        if before.path:
            raise ConversationBegun
        if opening != before.opening or opening_items(before)[-1]["id"] != item_id:
            raise ItemFollowed
        return opening.model_copy(update={"messages": opening.messages[:-1]})

    opened = await change_opened(services.conversations, caller, conversation_id, changed)
    return schemas.OpenAiConversation.of(opened.conversation, opened.opening)
