"""A module an extension author might write."""

from pydantic import BaseModel

from runtally.tools.tool import ToolContext, ToolOutput, tool


class WeatherArgs(BaseModel):
    city: str
    days: int = 1


class Weather(BaseModel):
    summary: str
    station_id: str


@tool(id="demo__weather", description="Weather of a city.", effect="read_only", redact=("summary",))
async def weather(args: WeatherArgs, _context: ToolContext) -> ToolOutput[Weather]:
    return ToolOutput(f"Sunny in {args.city}", Weather(summary="sunny", station_id="x1"))


also_weather = weather
