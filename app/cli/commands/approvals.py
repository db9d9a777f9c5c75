"""`runtally approvals`: what waits for a person on the server of the environment, and decisions about it."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.errors import Commands
from app.cli.terminal import AsJson, Terminal, minutes, print_entries, print_words

if TYPE_CHECKING:
    from runtally import Approval, AsyncClient
    from runtally.options import DecisionOptions

approvals = Commands(help="What waits for a person: list, watch, allow, deny.", no_args_is_help=True)
_output, _console = Terminal(highlight=False), Terminal(stderr=True, highlight=False)
_MAX_CHARS = 300
_EVERY_S = 1.0
_READ_AGAIN = 200
"""How many known requests are read before the rest is taken to be known: of two, the later may be stored
first."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A request of a run."""

    run_id: str
    request_id: str


def _place(text: str) -> _Place:
    run_id, slash, request_id = text.partition("/")
    if not (run_id and slash and request_id):
        raise typer.BadParameter("must be RUN/REQUEST, as `approvals list` prints it")
    return _Place(run_id, request_id)


Place = Annotated[_Place, typer.Argument(parser=_place, metavar="RUN/REQUEST")]


@approvals.command("list")
async def list_approvals(*, as_json: AsJson = False) -> None:
    """Tool calls, questions and calls of client tools that wait for an answer, newest first."""
    from runtally import AsyncClient

    async with AsyncClient() as client:
        found = [each async for each in client.approvals()]
    if as_json:
        _output.print_json(data=[each.model_dump(mode="json", by_alias=True) for each in found])
        return
    print_entries(_output, [_entry(each) for each in found], title="Approvals")


@approvals.command("watch")
def watch_approvals(
    *, as_json: Annotated[bool, typer.Option("--json", help="As lines of JSON, as the API has them.")] = False
) -> None:
    """Print what begins to wait for an answer, as it happens, until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        asyncio.run(_watch(as_json=as_json))


@approvals.command("allow")
async def allow(
    place: Place,
    *,
    conversation: Annotated[
        bool, typer.Option("--conversation", help="Also later calls of the tool in the conversation.")
    ] = False,
) -> None:
    """Allow a tool call."""
    await _decide(place, allow=True, options={"for_conversation": conversation})


@approvals.command("deny")
async def deny(
    place: Place,
    *,
    message: Annotated[str | None, typer.Option(help="Why, for the model.")] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Also end the run.")] = False,
) -> None:
    """Deny a tool call."""
    options: DecisionOptions = {"stop": stop}
    if message is not None:
        options["message"] = message
    await _decide(place, allow=False, options=options)


async def _watch(*, as_json: bool) -> None:
    from runtally import AsyncClient

    async with AsyncClient() as client:
        known = {(each.run_id, each.request_id) async for each in client.approvals()}
        print_words(_console, f"Watching {client.url}: {len(known)} wait already. Ctrl-C ends this.")
        while True:
            await asyncio.sleep(_EVERY_S)
            for each in await _began(client, known):
                if as_json:
                    line = json.dumps(each.model_dump(mode="json", by_alias=True))
                    _output.print(line, soft_wrap=True)
                else:
                    print_entries(_output, [_entry(each)])


async def _began(client: "AsyncClient", known: set[tuple[str, str]]) -> "list[Approval]":
    """What has begun to wait since it was last asked, oldest first; it is known from then on."""
    began, again = [], 0
    async for each in client.approvals():
        place = (each.run_id, each.request_id)
        if place not in known:
            known.add(place)
            began.append(each)
        elif (again := again + 1) == _READ_AGAIN:
            break
    return began[::-1]


async def _decide(place: _Place, *, allow: bool, options: "DecisionOptions") -> None:
    from runtally import AsyncClient

    async with AsyncClient() as client:
        await client.decide(place.run_id, place.request_id, allow=allow, **options)


def _entry(each: "Approval") -> tuple[str, str]:
    # In ASCII: what a model wrote may contain what a terminal obeys.
    asked = json.dumps(each.args if each.questions is None else each.questions)[:_MAX_CHARS]
    what = each.tool_name or each.source
    return (
        f"{each.run_id}/{each.request_id}",
        f"until {minutes(each.expires_at)}  {each.kind}  {what} {asked}",
    )
