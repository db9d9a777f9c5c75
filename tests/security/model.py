"""A scripted model that does as it is told, for servers that many stories share.

    python -m tests.security.model

Prints its URL and serves until it is stopped. The last word of the prompt that it knows decides:
`hang` never answers, `words 500` says so many words, anything else is answered with `ok`.
"""

import asyncio
import re

from app.simulator.script import ApiRequest, Hold, Reply, Text
from app.simulator.server import Simulator

_ORDER = re.compile(r"\b(hang|words (\d{1,6}))\b")


def obedient(request: ApiRequest) -> Reply:
    """Say what the prompt asks for."""
    match _ORDER.findall(request.last_text)[-1:]:
        case [("hang", _)]:
            return Reply([Text("Wait.")], hold=Hold(index=2))
        case [(_, number)]:
            return Reply([Text("word " * int(number))])
        case _:
            return Reply([Text("ok")])


async def main() -> None:
    """Serve until we are stopped."""
    async with Simulator(obedient) as simulator:
        print(simulator.url, flush=True)  # noqa: T201
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
