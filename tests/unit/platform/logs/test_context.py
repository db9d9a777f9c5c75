import asyncio

import structlog

from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.logs.context import call_detached, for_run, note, noting, start_detached
from tests.log_lines import written_log

log = structlog.get_logger(__name__)
RUN = RunKey(AccountId(new_uuid()), RunId("r1"))


async def say() -> None:
    log.info("test.line")
    await asyncio.create_task(say_within())


async def say_within() -> None:
    log.info("test.line")


async def test_what_a_run_starts_names_it_unless_it_is_detached() -> None:
    key_id = new_uuid()
    with written_log() as written, for_run(RUN, api_key_id=key_id, request_id="q"):
        await asyncio.create_task(say())
        await start_detached(say())
        await call_detached(asyncio.create_task, say())

    expected = {"run_id": "r1", "account_id": str(RUN.account_id), "key_id": str(key_id), "request_id": "q"}
    inherited, *others = [
        {name: line[name] for name in line.keys() & expected.keys()} for line in written.lines()[1:]
    ]
    assert inherited == expected
    assert others == [{}] * 4


async def test_a_task_that_serves_several_runs_names_the_one_of_the_moment() -> None:
    served: dict[str, str] = {}

    async def serve() -> None:
        await say()
        served["run_id"] = "one"
        await say()
        served["run_id"] = "two"
        await say()
        served.clear()
        await say()

    with written_log() as written, for_run(RUN):
        await start_detached(serve(), fields=lambda: served)

    named = [line.get("run_id") for line in written.lines()]
    assert named == [None, None, "one", "one", "two", "two", None, None]


async def test_what_is_noted_is_named_from_then_on_and_by_nothing_else() -> None:
    with written_log() as written:
        note(run_id="ignored")
        with noting(trace_id="t"):
            await say_within()
            note(run_id="r2")
            await say_within()
            await start_detached(say_within())
        await say_within()

    named = [(line.get("trace_id"), line.get("run_id")) for line in written.lines()]
    assert named == [("t", None), ("t", "r2"), (None, None), (None, None)]
