import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import runtally
from app import events as server
from app.http.api.balance.schemas import BalanceResponse
from app.http.api.conversations.schemas import BranchResponse, ListedConversation
from app.http.api.receipts.schemas import ReceiptLineResponse, ReceiptResponse
from app.http.api.runs.command_schemas import SentToRun
from app.http.api.runs.schemas import RunBillingResponse, RunResponse
from app.http.api.usage.schemas import UsageResponse
from app.requests.outcome import GraphFinal
from app.requests.run_request import GraphRunRequest, RunLimits
from runtally import types
from runtally.conversations import AsyncConversations, Conversations
from runtally.events import EVENT_TYPES
from runtally.model import Model
from runtally.options import Limits, RunOptions
from runtally.protocol import billing

SOURCE = Path(runtally.__file__)


def test_importing_the_package_imports_nothing_else() -> None:
    program = (
        "import runtally, sys; print([name for name in sys.modules if name.partition('.')[0] in sys.argv])"
    )
    heavy = ("httpx", "pydantic", "app", "fastapi", "sqlalchemy", "asyncio")

    done = subprocess.run([sys.executable, "-c", program, *heavy], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_every_name_that_a_type_checker_sees_is_there() -> None:
    branch = next(node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If))
    named = {
        alias.name: node.module
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert named == runtally._MODULE_OF
    assert named.keys() <= set(dir(runtally))
    for name in named:
        assert getattr(runtally, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = runtally.Nothing


def test_events_have_the_fields_of_the_servers() -> None:
    served = {known.model_fields["type"].default: known for known in get_args(server.ClientEvent)}

    assert EVENT_TYPES.keys() == served.keys()
    for kind, known in EVENT_TYPES.items():
        # The encoder of the wire adds the time, and leaves out what clients are not told.
        assert known.model_fields.keys() == {*served[kind].model_fields, "at"} - {"cached"}, kind


@pytest.mark.parametrize(
    ("read", "served"),
    [
        (types.GraphFinal, GraphFinal),
        (types.Run, RunResponse),
        (types.RunBilling, RunBillingResponse),
        (types.SentMessage, SentToRun),
        (billing.Receipt, ReceiptResponse),
        (billing.ReceiptLine, ReceiptLineResponse),
        (billing.UsageSums, UsageResponse),
        (billing.Balance, BalanceResponse),
        (types.Conversation, ListedConversation),
        (types.Branch, BranchResponse),
    ],
)
def test_what_is_read_is_served_under_the_same_name(read: type[Model], served: type[Model]) -> None:
    def json_names(model: type[Model]) -> set[str]:
        return {field.alias or name for name, field in model.model_fields.items()}

    assert json_names(read) <= json_names(served)


def test_both_clients_have_the_same_methods() -> None:
    renamed = {"aclose": "close"}
    pairs = (
        (runtally.Client, runtally.AsyncClient),
        (runtally.RunStream, runtally.AsyncRunStream),
        (Conversations, AsyncConversations),
    )
    for blocking, asynchronous in pairs:
        assert parameters(blocking) == {
            renamed.get(name, name): found for name, found in parameters(asynchronous).items()
        }


def parameters(client: type) -> dict[str, list[str]]:
    """The parameters of the public methods."""
    methods = inspect.getmembers(client, inspect.isfunction)
    return {name: list(inspect.signature(method).parameters) for name, method in methods if name[0] != "_"}


def test_options_are_those_of_a_request() -> None:
    renamed = {"response_schema": "response_format"}
    left = {"graph_id", "messages"}

    assert {renamed.get(name, name) for name in RunOptions.__annotations__} == set(
        GraphRunRequest.model_fields
    ) - left
    assert set(Limits.__annotations__) == set(RunLimits.model_fields)
