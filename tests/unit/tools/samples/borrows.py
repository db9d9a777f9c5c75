"""A module that defines a tool and imports another module's."""

from runtally.tools.tool import ToolContext, ToolOutput, tool
from tests.unit.tools.samples.weather import Weather, WeatherArgs, weather

borrowed = weather


@tool(id="demo__forecast", description="Tomorrow.", effect="read_only", redact=())
async def forecast(_args: WeatherArgs, _context: ToolContext) -> ToolOutput[Weather]:
    return ToolOutput("Rain", Weather(summary="rain", station_id="x1"))
