"""Lists of items, page by page."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from fastapi import Depends, Query
from fastapi.responses import JSONResponse

from app.bootstrap.services import Services
from app.errors import Invalid
from app.http.openai.responses.items import Item

_MOST: Final = 100
_DEFAULT: Final = 20
_IMAGES: Final = "message.input_image.image_url"


class ItemPage(NamedTuple):
    """Some items of a list, and whether others follow."""

    items: Sequence[Item]
    has_more: bool


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """Which items are listed, and in which order."""

    limit: int
    is_ascending: bool
    after: str | None
    """The last item of the page before."""
    has_images: bool
    """Whether images are repeated."""

    def page_of(self, items: Sequence[Item], *, more: bool = False) -> ItemPage:
        """The page of these items, which are in the order of what they say; raises `Invalid` for `after`.

        `more`: others follow in the order of the list.
        """
        left = list(items if self.is_ascending else reversed(items))
        if self.after is not None:
            left = self._rest(left, self.after)
        return ItemPage(left[: self.limit], more or len(left) > self.limit)

    def _rest(self, items: list[Item], after: str) -> list[Item]:
        places = (place for place, item in enumerate(items, 1) if item["id"] == after)
        if (place := next(places, None)) is None:
            raise Invalid.field("after", "is not an item of this list")
        return items[place:]


async def _has_images(
    include: Annotated[
        list[str] | None, Query(alias="include[]", description=f"`{_IMAGES}`; others have no effect.")
    ] = None,
) -> bool:
    return _IMAGES in (include or ())


HasImages: TypeAlias = Annotated[bool, Depends(_has_images)]
"""Whether images are repeated."""


async def _chosen(
    has_images: HasImages,
    limit: Annotated[int, Query(ge=1, le=_MOST)] = _DEFAULT,
    order: Literal["asc", "desc"] = "desc",
    after: Annotated[str | None, Query(description="The last item of the page before.")] = None,
) -> ItemQuery:
    return ItemQuery(limit, order == "asc", after, has_images)


ItemParams: TypeAlias = Annotated[ItemQuery, Depends(_chosen)]


async def item_list(services: Services, page: ItemPage, *, size: int) -> JSONResponse:
    """The page as clients read it; `size`: about how many bytes it has."""
    ids = [item["id"] for item in page.items]
    content: dict[str, Any] = {
        "object": "list",
        "data": page.items,
        "first_id": ids[0] if ids else None,
        "last_id": ids[-1] if ids else None,
        "has_more": page.has_more,
    }
    return await services.offload.run(partial(JSONResponse, content), size=size)
