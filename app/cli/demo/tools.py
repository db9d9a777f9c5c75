"""The tool of the demo that needs consent."""

from pydantic import BaseModel, Field

from runtally.tools.tool import ToolContext, ToolOutput, tool


class Table(BaseModel):
    """The arguments."""

    guests: int = Field(ge=1, le=12)
    time: str


class Reservation(BaseModel):
    """The result."""

    confirmation: str


@tool(
    id="demo__reserve_table",
    description="Reserve a table in the restaurant of the demo.",
    effect="external_side_effect",
    redact=("confirmation",),
)
async def reserve_table(args: Table, _context: ToolContext) -> ToolOutput[Reservation]:
    """Confirm any table: there is no restaurant."""
    confirmation = f"Table for {args.guests} at {args.time}"
    return ToolOutput(
        markdown=f"{confirmation}: confirmed.", structured=Reservation(confirmation=confirmation)
    )
