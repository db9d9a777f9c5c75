"""Calls of MCP clients that are answered with tasks: each is a run, which any server knows."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from app.simulator.script import Hold, HttpError, Reply, Text, ToolUse, in_turn
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL, office
from tests.e2e.office import settings as office_settings
from tests.e2e.servers import a_server
from tests.e2e.stories import World, WorldOf, a_client
from tests.integration.mcp_messages import (
    WITH_TASKS,
    a_call,
    beginning,
    in_session,
    messages_in,
    modern,
    of_task,
)
from tests.patience import PATIENCE_S

PATH = "/mcp"
TOOL, MAILER = f"{MESSAGES}__assistant", f"{MESSAGES}__mailer"
FORMS: dict[str, Any] = {"elicitation": {}}
APPROVED = {"action": "accept", "content": {"approved": True}}
AS_TASK: dict[str, Any] = {"task": {}}
ENDED = {"completed", "failed", "cancelled"}


async def sent(http: httpx.AsyncClient, message: dict[str, Any], **capabilities: Any) -> dict[str, Any]:
    """The answer to a message of a client without sessions that takes tasks."""
    found: dict[str, Any] = (await http.post(PATH, **modern(message, **WITH_TASKS, **capabilities))).json()
    return found


async def begun(http: httpx.AsyncClient, tool: str = TOOL, message: str = "hi") -> str:
    """The id of a task that is new."""
    result = (await sent(http, a_call(tool, message)))["result"]
    assert (result["resultType"], result["status"]) == ("task", "working")
    assert result["taskId"] == result["_meta"]["runtally/runId"]
    found: str = result["taskId"]
    return found


async def polled(
    http: httpx.AsyncClient, task: str, statuses: set[str] = ENDED, **capabilities: Any
) -> dict[str, Any]:
    """A task once it has one of these statuses."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found: dict[str, Any] = (await sent(http, of_task("get", task), **capabilities))["result"]
            if found["status"] in statuses:
                return found
            await asyncio.sleep(0.05)


async def posted(http: httpx.AsyncClient, session: str, message: dict[str, Any]) -> dict[str, Any]:
    """The answer to a message of a session."""
    found: dict[str, Any] = (await http.post(PATH, **in_session(session, message))).json()
    return found


async def begun_in(http: httpx.AsyncClient, session: str, tool: str = TOOL, message: str = "ho") -> str:
    """The id of a new task of a session."""
    found: str = (await posted(http, session, a_call(tool, message, **AS_TASK)))["result"]["task"]["taskId"]
    return found


def listing(**params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 3, "method": "tasks/list", "params": params}


async def statuses(http: httpx.AsyncClient, session: str) -> list[str]:
    """Of the tasks that a session lists."""
    return [task["status"] for task in (await posted(http, session, listing()))["result"]["tasks"]]


async def a_session(world: World, **capabilities: Any) -> str:
    begun = (await world.http.post(PATH, json=beginning(**capabilities))).raise_for_status()
    tasks: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert begun.json()["result"]["capabilities"]["tasks"] == tasks
    return begun.headers["mcp-session-id"]


async def test_a_task_is_the_run_of_its_call(world_of: WorldOf) -> None:
    hold = Hold(1)
    world = await world_of(lambda _: Reply([Text("All is done.")], hold=hold), agent=MESSAGES)

    task = await begun(world.http)
    await hold.reached.wait()
    working = await polled(world.http, task, {"working"})
    run = (await world.http.get(f"/v1/runs/{task}")).json()
    hold.until.set()
    done = await polled(world.http, task)
    again = (await sent(world.http, a_call(TOOL, "")))["error"]
    named = {"name": TOOL, "arguments": {"message": "x", "conversation": f"run:{task}"}}
    joined = (await sent(world.http, {**a_call(TOOL, ""), "params": named}))["result"]

    assert (working["resultType"], working["ttlMs"], run["status"]) == ("complete", None, "running")
    assert 500 <= working["pollIntervalMs"] <= 5000
    assert working["createdAt"] <= working["lastUpdatedAt"] <= done["lastUpdatedAt"]
    assert (done["status"], done["result"]["isError"]) == ("completed", False)
    assert done["result"]["content"] == [{"type": "text", "text": "All is done."}]
    assert done["result"]["_meta"]["runtally/runId"] == task
    assert "statusMessage" not in done
    assert again["data"]["errors"][0]["field"] == "params.arguments.message"
    assert (joined["taskId"], joined["status"]) == (task, "completed")
    assert len((await world.http.get("/v1/runs")).json()["items"]) == 1
    assert len(await world.receipts(task)) == 1


async def test_only_clients_that_announce_tasks_get_them(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("done")]), agent=MESSAGES)
    task = await begun(world.http)
    discover: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}

    plain = await world.http.post(PATH, **modern(a_call(TOOL, "hi", **AS_TASK)))
    asked = [
        (await world.http.post(PATH, **modern(of_task(method, task, inputResponses={})))).json()
        for method in ("get", "update", "cancel")
    ]
    found = (await world.http.post(PATH, **modern(discover))).json()["result"]
    other_name = modern(of_task("get", task), **WITH_TASKS)
    other_name["headers"]["Mcp-Name"] = "another"
    mismatched = await world.http.post(PATH, **other_name)
    unknown = [await sent(world.http, of_task(method, task)) for method in ("result", "list")]
    older = await world.http.post(
        PATH, json=beginning() | {"params": {**beginning()["params"], "protocolVersion": "2025-06-18"}}
    )
    headers = {"MCP-Protocol-Version": "2025-06-18"}
    in_older = await world.http.post(PATH, json=a_call(TOOL, "hi", **AS_TASK), headers=headers)

    assert messages_in(plain.text)[-1][1]["result"]["resultType"] == "complete"
    required = {"requiredCapabilities": WITH_TASKS}
    assert [(each["error"]["code"], each["error"]["data"]) for each in asked] == [(-32021, required)] * 3
    assert found["capabilities"]["extensions"] == WITH_TASKS["extensions"]
    assert "tasks" not in found["capabilities"]
    assert (mismatched.status_code, mismatched.json()["error"]["code"]) == (400, -32020)
    assert [each["error"]["code"] for each in unknown] == [-32601] * 2
    assert "tasks" not in older.json()["result"]["capabilities"]
    assert messages_in(in_older.text)[-1][1]["result"]["isError"] is False


async def test_tasks_are_those_of_the_key_that_began_them(world_of: WorldOf) -> None:
    hold = Hold(0)
    world = await world_of(lambda _: Reply([Text("secret")], hold=hold), agent=MESSAGES)
    accounts = world.services.accounts
    keys = [
        (await accounts.create_key(name, scopes))[1]
        for name, scopes in (
            ("default", ["runs:write"]),
            ("default", ["runs:write", "runs:read", "runs:approve"]),
            ("other", ["runs:write", "runs:read", "runs:approve"]),
        )
    ]
    task = await begun(world.http)
    await hold.reached.wait()
    session = await a_session(world)

    for key in keys:
        async with a_client(world.url, key, agent=MESSAGES) as other:
            refused = [
                await sent(other, of_task(method, task, inputResponses={"x": APPROVED}))
                for method in ("get", "update", "cancel")
            ]
            refused += [
                await posted(other, session, of_task(method, task)) for method in ("get", "result", "cancel")
            ]
            unknown = [await sent(other, of_task("get", each)) for each in ("none", "run:none")]
            listed = await posted(other, session, listing())
        codes = {(each["error"]["code"], each["error"]["data"]["code"]) for each in [*refused, *unknown]}
        assert codes == {(-32602, "run_not_found")}
        assert listed["result"]["tasks"] == []
    wrong = [
        await posted(world.http, session, {**of_task(name, ""), "params": params})
        for name in ("get", "result", "cancel")
        for params in ({}, {"taskId": 5})
    ]
    assert [each["error"]["data"]["errors"][0]["field"] for each in wrong] == ["params.taskId"] * 6
    hold.until.set()
    assert (await polled(world.http, task))["result"]["content"][0]["text"] == "secret"


async def test_a_task_asks_for_approval_and_is_answered_by_any_server(
    world_of: WorldOf, tmp_path: Path
) -> None:
    send = Reply([ToolUse(MAIL, {"to": "a@example.org", "text": "hi"})])
    world = await world_of(in_turn(send, Reply([Text("Sent.")])), agent=MESSAGES, **office_settings(tmp_path))
    task = await begun(world.http, MAILER, "write")

    waiting = await polled(world.http, task, {"input_required"}, **FORMS)
    without = await polled(world.http, task, {"working"})
    ((name, asked),) = waiting["inputRequests"].items()
    unknown = await sent(world.http, of_task("update", task, inputResponses={"x": APPROVED}), **FORMS)
    wrong = [
        await sent(world.http, of_task("update", task, **answers), **FORMS)
        for answers in ({}, {"inputResponses": {name: {"action": "perhaps"}}})
    ]
    still = await polled(world.http, task, {"input_required"}, **FORMS)
    given = of_task("update", task, inputResponses={name: APPROVED})
    taken = [await sent(world.http, given, **FORMS) for _ in range(2)]
    done = await polled(world.http, task, **FORMS)

    assert asked["method"] == "elicitation/create"
    assert "office__send_mail" in asked["params"]["message"]
    assert "_meta" not in asked["params"]
    assert f"{world.url}/approvals?runId={task}" in without["statusMessage"]
    assert still["inputRequests"] == waiting["inputRequests"]
    assert [each["result"]["resultType"] for each in (unknown, *taken)] == ["complete"] * 3
    assert [each["error"]["data"]["errors"][0]["field"] for each in wrong] == [
        "params.inputResponses",
        f"params.inputResponses.{name}.action",
    ]
    assert done["result"]["content"][0]["text"] == "Sent."
    assert office().sent == [("a@example.org", "hi")]


async def test_a_task_is_cancelled_once(world_of: WorldOf) -> None:
    hold = Hold(0)
    world = await world_of(lambda _: Reply([Text("done")], hold=hold), agent=MESSAGES)
    session = await a_session(world)

    first = await begun(world.http)
    await hold.reached.wait()
    taken = [await sent(world.http, of_task("cancel", first)) for _ in range(2)]
    ended = await polled(world.http, first)
    later = await sent(world.http, of_task("cancel", first))
    hold.reached.clear()
    second = await begun_in(world.http, session)
    await hold.reached.wait()
    answers = [await posted(world.http, session, of_task("cancel", second)) for _ in range(2)]
    outcome = await world.http.post(PATH, **in_session(session, of_task("result", second)))

    assert [each["result"]["resultType"] for each in (*taken, later)] == ["complete"] * 3
    assert ended["status"] == "cancelled"
    assert "result" not in ended
    assert answers[0]["result"]["status"] == "cancelled"
    assert (answers[1]["error"]["code"], answers[1]["error"]["data"]["errors"]) == (
        -32602,
        [{"field": "params.taskId", "message": "names a task that has ended"}],
    )
    assert messages_in(outcome.text)[-1][1]["result"]["isError"] is True
    assert (await world.ended(second))["status"] == "cancelled"


async def test_a_failed_run_is_a_failed_task_only_where_the_revision_says_so(world_of: WorldOf) -> None:
    world = await world_of(lambda _: HttpError(400, "invalid_request_error", "secret words"), agent=MESSAGES)
    session = await a_session(world)

    done = await polled(world.http, await begun(world.http))
    task = await begun_in(world.http, session)
    outcome = messages_in((await world.http.post(PATH, **in_session(session, of_task("result", task)))).text)
    shown = (await posted(world.http, session, of_task("get", task)))["result"]

    assert (done["status"], done["result"]["isError"]) == ("completed", True)
    result = outcome[-1][1]["result"]
    assert (shown["status"], result["isError"]) == ("failed", True)
    assert result["content"] == done["result"]["content"]
    assert result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task}
    assert "secret" not in str([done, outcome, shown])


async def test_the_result_of_a_task_of_a_session_asks_in_its_stream_and_is_resumed(
    world_of: WorldOf, tmp_path: Path
) -> None:
    send = Reply([ToolUse(MAIL, {"to": "a@example.org", "text": "hi"})])
    world = await world_of(in_turn(send, Reply([Text("Sent.")])), agent=MESSAGES, **office_settings(tmp_path))
    session = await a_session(world, **FORMS)
    listed = await posted(world.http, session, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    task = await begun_in(world.http, session, MAILER, "write")
    wanted = in_session(session, of_task("result", task, _meta={"progressToken": "p"}))

    async with world.http.stream("POST", PATH, **wanted) as response:
        text, answered = "", False
        async for part in response.aiter_text():
            text += part
            if not answered and "elicitation/create" in text:
                answered = True
                shown = await posted(world.http, session, of_task("get", task))
                listed_as = await statuses(world.http, session)
                asked = messages_in(text)[-1][1]
                reply = {"jsonrpc": "2.0", "id": asked["id"], "result": APPROVED}
                await world.http.post(PATH, **in_session(session, reply))
    first = next(line.removeprefix("id: ") for line in text.splitlines() if line.startswith("id: "))
    rest = await world.http.get(PATH, headers={**wanted["headers"], "Last-Event-ID": first})

    related = {"io.modelcontextprotocol/related-task": {"taskId": task}}
    assert {each["execution"]["taskSupport"] for each in listed["result"]["tools"]} == {"optional"}
    assert asked["params"]["_meta"] == related
    assert [shown["result"]["status"], *listed_as] == ["input_required"] * 2
    assert messages_in(rest.text)[-1] == messages_in(text)[-1]
    result = messages_in(text)[-1][1]["result"]
    assert (result["content"][0]["text"], result["_meta"] | related) == ("Sent.", result["_meta"])


async def test_the_result_of_a_task_waits_for_the_end_of_its_run_where_the_client_has_no_forms(
    world_of: WorldOf, tmp_path: Path
) -> None:
    send = Reply([ToolUse(MAIL, {"to": "a@example.org", "text": "hi"})])
    script = in_turn(send, Reply([Text("Sent.")]))
    world = await world_of(script, agent=MESSAGES, **office_settings(tmp_path))
    session = await a_session(world)
    task = await begun_in(world.http, session, MAILER, "write")
    asked = await world.first(task, "permission_request")

    named = {"name": MAILER, "arguments": {"message": "x", "conversation": f"run:{task}"}}
    plain = {**a_call(MAILER, ""), "params": named}

    async with world.http.stream("POST", PATH, **in_session(session, of_task("result", task))) as response:
        shown = await posted(world.http, session, of_task("get", task))
        listed_as = await statuses(world.http, session)
        # A call does not wait for the person.
        linked = await world.http.post(PATH, **in_session(session, plain))
        await world.decide(task, asked, decision="allow")
        text = (await response.aread()).decode()

    assert "Waiting for a person" in messages_in(linked.text)[-1][1]["result"]["content"][0]["text"]
    assert [shown["result"]["status"], *listed_as] == ["working"] * 2
    assert messages_in(text)[-1][1]["result"]["content"][0]["text"] == "Sent."


async def copied(admin: asyncpg.Connection, run_id: str, *, times: int) -> None:
    """Store rows like that of a run."""
    columns = await admin.fetch(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_name = 'runs' AND is_generated = 'NEVER' ORDER BY ordinal_position"
    )
    names = [row["column_name"] for row in columns]
    own = {"run_id": "gen_random_uuid()::text", "state_key": "NULL", "turn": "NULL", "session_id": "NULL"}
    values = ", ".join(own.get(name, name) for name in names)
    await admin.execute(
        f"INSERT INTO runs ({', '.join(names)}) SELECT {values} FROM runs, generate_series(1, $2)"  # noqa: S608
        " WHERE run_id = $1",
        run_id,
        times,
    )


async def test_tasks_of_a_session_are_listed_in_pages(world_of: WorldOf, admin: asyncpg.Connection) -> None:
    world = await world_of(lambda _: Reply([Text("done")]), agent=MESSAGES)
    session = await a_session(world)
    ids = []
    for number in range(3):
        call = {**a_call(TOOL, str(number), **AS_TASK), "id": number + 10}
        ids.append((await posted(world.http, session, call))["result"]["task"]["taskId"])
        await world.ended(ids[-1])
    await world.http.delete(f"/v1/runs/{ids[0]}")

    whole = (await posted(world.http, session, listing()))["result"]
    await copied(admin, ids[2], times=60)
    first = (await posted(world.http, session, listing()))["result"]
    second = (await posted(world.http, session, listing(cursor=first["nextCursor"])))["result"]
    wrong = (await posted(world.http, session, listing(cursor="x")))["error"]

    assert [each["taskId"] for each in whole["tasks"]] == ids[:0:-1]
    assert {each["status"] for each in whole["tasks"]} == {"completed"}
    assert "nextCursor" not in whole
    assert "nextCursor" not in second
    assert len({each["taskId"] for each in [*first["tasks"], *second["tasks"]]}) == 62
    assert (wrong["code"], wrong["data"]["errors"][0]["field"]) == (-32602, "params.cursor")


async def test_a_task_outlives_the_server_that_began_it(
    world_of: WorldOf, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    hold = Hold(0)
    shared = {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    world = await world_of(lambda _: Reply([Text("done")], hold=hold), agent=MESSAGES, **shared)

    async with a_server(tmp_path, world.simulator.url, role="api", agent=MESSAGES, **shared) as (
        server,
        http,
    ):
        task = await begun(http)
        await hold.reached.wait()
        server.kill()
        working = await polled(world.http, task, {"working"})
        hold.until.set()
        done = await polled(world.http, task)

    assert working["taskId"] == task
    assert done["result"]["content"][0]["text"] == "done"
    assert len(await world.receipts(task)) == 1
