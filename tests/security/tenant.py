"""A well-behaved tenant in a process of its own: small runs at a steady pace, one after the other.

    python -m tests.security.tenant http://127.0.0.1:8000 rt_…

Runs until its standard input ends, then prints a JSON list with what became of each run: the seconds
until `run_started` and until `done`, both null when it was refused or failed, and its HTTP status.
"""

import asyncio
import json
import sys
import time

import httpx
import httpx_sse

ADDRESS = "127.0.0.88"
"""Loopback all the same, and none of those that a cap on an attacker's connections counts."""
PAUSE_S = 0.5
LONGEST_S = 60.0
_BODY = {"graphId": "claude_agents:summarizer", "messages": [{"role": "user", "content": "words 3"}]}
Outcome = tuple[float | None, float | None, int]


async def ran(http: httpx.AsyncClient) -> Outcome:
    """One run."""
    began, started, done, status = time.perf_counter(), None, None, 0
    try:
        async with httpx_sse.aconnect_sse(http, "POST", "/v1/runs/stream", json=_BODY) as source:
            status = source.response.status_code
            async for event in source.aiter_sse():
                if event.event == "run_started":
                    started = time.perf_counter() - began
                if event.event == "assistant_final":
                    done = time.perf_counter() - began
    except (httpx.HTTPError, httpx_sse.SSEError):
        pass
    return started, done, status


async def main(url: str, key: str) -> None:
    """Run until nobody wants to know any more."""
    over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    outcomes: list[Outcome] = []
    headers = {"Authorization": f"Bearer {key}"}
    transport = httpx.AsyncHTTPTransport(local_address=ADDRESS)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=LONGEST_S, transport=transport, trust_env=False
    ) as http:
        await ran(http)
        print("running", flush=True)  # noqa: T201
        while not over.done():
            outcomes.append(await ran(http))
            await asyncio.wait({over}, timeout=PAUSE_S)
    print(json.dumps(outcomes), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
