"""The items of a conversation: what its runs were asked and have answered, read run by run."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from app.bootstrap.services import Services
from app.errors import Conflict, Invalid, NotFound
from app.http.openai.responses.ids import ResponseName
from app.http.openai.responses.items import Item, items_of, turns_of
from app.http.openai.responses.listing import ItemPage, ItemQuery
from app.http.openai.responses.stored import read_items
from app.ids import RunId, RunKey
from app.runs.commands.service import RunNotFound
from app.runs.conversations.records import OpenedConversation
from app.runs.deletion.service import RunDeleted
from app.runs.stateless.service import first_run

_PAGE_BYTES: Final = 2 * 2**20
"""A page of several runs ends once it has read so many."""


class ItemNotFound(NotFound):
    """This conversation has no item with this id."""

    code = "item_not_found"


class ItemFollowed(Conflict):
    """Only the last item of a conversation can be deleted, before its first response."""

    code = "item_followed"


def opening_items(opened: OpenedConversation, *, has_images: bool = False) -> list[Item]:
    """What a conversation was created with, under the ids that its first run will have for it."""
    conversation = opened.conversation
    name = ResponseName(first_run(conversation.account_id, conversation.state_key))
    return list(turns_of(name, opened.opening.messages, has_images=has_images))


async def page_of_items(
    services: Services, opened: OpenedConversation, chosen: ItemQuery, *, page: str
) -> tuple[ItemPage, int]:
    """A page of its items, and about how many bytes were read for it; raises `Invalid` for `after`."""
    if not opened.path:
        items = opening_items(opened, has_images=chosen.has_images)
        return chosen.page_of(items), 0
    runs = list(opened.path if chosen.is_ascending else reversed(opened.path))
    if chosen.after is not None:
        runs = runs[_place_of(runs, chosen.after) :]
    found: list[Item] = []
    listed, size = ItemPage((), has_more=False), 0
    for number, run_id in enumerate(runs, 1):
        items, read = await _items_of(services, opened, run_id, page=page, has_images=chosen.has_images)
        found = [*found, *items] if chosen.is_ascending else [*items, *found]
        listed, size = chosen.page_of(found, more=number < len(runs)), size + read
        if len(listed.items) == chosen.limit or (listed.items and size > _PAGE_BYTES):
            break
    return listed, size


async def find_item(
    services: Services,
    opened: OpenedConversation,
    item_id: str,
    *,
    page: str = "",
    has_images: bool = False,
) -> Item:
    items = opening_items(opened, has_images=has_images)
    if (name := ResponseName.of(item_id)) is not None and name.run_id in opened.path:
        items, _ = await _items_of(services, opened, RunId(name.run_id), page=page, has_images=has_images)
    for item in items:
        if item["id"] == item_id:
            return item
    raise ItemNotFound


def _place_of(runs: Sequence[RunId], item_id: str) -> int:
    name = ResponseName.of(item_id)
    if name is None or name.run_id not in runs:
        raise Invalid.field("after", "is not an item of this list")
    return runs.index(RunId(name.run_id))


async def _items_of(
    services: Services, opened: OpenedConversation, run_id: RunId, *, page: str, has_images: bool
) -> tuple[list[Item], int]:
    """The items of a run, and about how many bytes it has; none of one whose contents were deleted."""
    try:
        record = await services.runs.get_with_contents(RunKey(opened.conversation.account_id, run_id))
        return await read_items(services, record, partial(items_of, page=page, has_images=has_images))
    except (RunNotFound, RunDeleted):
        return [], 0
