"""A tool with arguments of every kind, most of which a call may leave out."""

from typing import Literal

from pydantic import BaseModel, Field

from runtally.tools.tool import ToolContext, tool

BOOK = "mcp__runtally__rooms__book"
BOOKER = "messages:booker"
REVERSES = "\u202e"


class Booking(BaseModel):
    room: Literal["blue", "green"]
    people: int = Field(ge=1, description=f"At most ten.{REVERSES}")
    projector: bool | None = None
    note: str | None = None
    floor: Literal["upper", "lower"] | None = None
    extras: list[str] = []


@tool(id="rooms__book", description="Book a room.", effect="external_side_effect", redact=())
async def book(args: Booking, _context: ToolContext) -> str:
    return args.model_dump_json(exclude_unset=True)
