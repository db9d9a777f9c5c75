"""A module whose tool takes the id of another."""

from runtally.tools.tool import ToolContext, ToolOutput, tool
from tests.unit.tools.samples.weather import Weather, WeatherArgs


@tool(id="demo__weather", description="Other weather.", effect="read_only", redact=())
async def other(_args: WeatherArgs, _context: ToolContext) -> ToolOutput[Weather]:
    return ToolOutput("Rain", Weather(summary="rain", station_id="x2"))
