"""A graph's static prompt is the same prefix in every run, so that the provider finds it in its cache.

The provider caches up to a block that is marked, and finds it again only when everything up to
there is the same: tools first, then the system prompt, then messages.
"""

import json
from pathlib import Path
from typing import Any

from app.simulator.script import ApiRequest, Reply, Text
from tests.e2e.recording_cli import a_login, a_recording_cli
from tests.e2e.stories import ANALYST, ASSISTANT, OpenWorld, WorldOf, a_request

TOOLS = ["core__calculate", "core__get_current_time"]


def hello(_: ApiRequest) -> Reply:
    return Reply([Text("hello")])


def cacheable(request: ApiRequest) -> bytes:
    """Everything up to the last marked block of the system prompt, byte by byte."""
    system: list[dict[str, Any]] = request.body["system"]
    last = max(index for index, block in enumerate(system) if "cache_control" in block)
    return json.dumps([request.body["model"], request.body["tools"], system[: last + 1]]).encode()


async def test_two_runs_of_a_graph_have_the_same_prefix(world_of: WorldOf) -> None:
    world = await world_of(hello, RUNTALLY_WARM_POOL=0)
    for prompt in ("one", "two"):
        await world.run(a_request(prompt, graphId=ANALYST))

    one, two = world.simulator.requests
    graph = world.services.graphs.get(ANALYST).system_prompt
    assert cacheable(one) == cacheable(two)
    assert one.body["system"][-1]["text"] == graph
    assert one.messages != two.messages


async def test_a_run_on_a_process_that_was_ready_has_it_too(world_of: WorldOf) -> None:
    world = await world_of(hello, RUNTALLY_WARM_POOL=1)
    for prompt in ("one", "two", "three"):
        await world.run(a_request(prompt))

    assert len({cacheable(request) for request in world.simulator.requests}) == 1


async def test_the_order_in_which_tools_are_asked_for_changes_nothing(world_of: WorldOf) -> None:
    world = await world_of(hello, RUNTALLY_WARM_POOL=0)
    for asked in (TOOLS, TOOLS[::-1]):
        await world.run(a_request(graphId=ANALYST, toolIds=asked))

    one, two = world.simulator.requests
    assert one.tool_names == two.tool_names
    assert cacheable(one) == cacheable(two)


async def test_nothing_of_the_run_or_the_machine_stands_in_it(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(hello, RUNTALLY_WARM_POOL=0)
    run_id = await world.start(a_request())
    await world.ended(run_id)

    (request,) = world.simulator.requests
    prefix = cacheable(request).decode()
    assert not any(word in prefix for word in (run_id, str(tmp_path), "run-", "2026-", "session"))


async def test_what_a_request_adds_to_the_system_prompt_makes_another_prefix(world_of: WorldOf) -> None:
    world = await world_of(hello, RUNTALLY_WARM_POOL=0)
    added = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    for messages in (added, added, [added[1]]):
        await world.run({"graphId": ASSISTANT, "messages": messages})

    one, again, plain = world.simulator.requests
    assert cacheable(one) == cacheable(again) != cacheable(plain)
    # The graph's own prompt comes first, but the CLI puts both into one block.
    assert one.body["system"][-1]["text"] == f"{plain.body['system'][-1]['text']}\n\nBe brief."


async def test_in_full_mode_the_prefix_is_the_same_as_well(open_world: OpenWorld, tmp_path: Path) -> None:
    """In full mode, which a login needs, the directory and the date come after the prefix."""
    login = {
        "RUNTALLY_CLAUDE_AUTH": "local_session",
        "RUNTALLY_CLAUDE_CONFIG_DIR": a_login(tmp_path / "login"),
    }

    def cli(simulator: Any) -> Any:
        simulator.accepted_keys = None
        return a_recording_cli(tmp_path, {"ANTHROPIC_BASE_URL": simulator.url})

    async with open_world(hello, cli=cli, **login) as world:
        for prompt in ("one", "two"):
            await world.run(a_request(prompt))
        one, two = world.simulator.requests

    assert cacheable(one) == cacheable(two)
    assert str(tmp_path) not in cacheable(one).decode()
