from itertools import islice
from typing import Any
from uuid import UUID

import pytest

from app.graphs.spec import GraphSpec
from app.ids import AccountId
from app.requests.run_request import OnDisconnect
from app.runs.chats import Chat, answer_ids, on_disconnect

CANCEL: OnDisconnect = "cancel"
CONTINUE: OnDisconnect = "continue"

ACCOUNT = AccountId(UUID(int=1))


def ids(**changes: Any) -> list[str]:
    fields = {
        "account": ACCOUNT,
        "graph_id": "claude_agents:assistant",
        "state_key": "chat-1",
        "message_id": "m-1",
        **changes,
    }
    chat = Chat(fields["graph_id"], fields["state_key"])
    return list(islice(answer_ids(fields["account"], chat, fields["message_id"]), 3))


def test_a_message_always_has_the_same_answer_ids_one_per_repetition() -> None:
    assert ids() == ids()
    assert len(set(ids())) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"account": AccountId(UUID(int=2))},
        {"graph_id": "claude_agents:other"},
        {"state_key": "chat-2"},
        {"message_id": "m-2"},
    ],
    ids=["account", "graph", "chat", "message"],
)
def test_other_messages_have_other_answer_ids(changes: dict[str, Any]) -> None:
    assert not set(ids()) & set(ids(**changes))


def test_answer_ids_do_not_change_between_releases() -> None:
    assert ids()[0] == "51646019-484f-50c8-a2bb-a56802a225f4"


@pytest.mark.parametrize(
    ("requested", "of_graph", "of_server", "expected"),
    [
        (None, None, CONTINUE, None),
        (None, None, CANCEL, CANCEL),
        (None, CONTINUE, CANCEL, None),
        (None, CANCEL, CONTINUE, CANCEL),
        (CONTINUE, CANCEL, CANCEL, None),
        (CANCEL, CONTINUE, CONTINUE, CANCEL),
    ],
)
def test_the_request_decides_before_the_graph_and_the_graph_before_the_server(
    requested: OnDisconnect | None,
    of_graph: OnDisconnect | None,
    of_server: OnDisconnect,
    expected: OnDisconnect | None,
) -> None:
    graph = GraphSpec(name="g", description="d", system_prompt="p", on_disconnect=of_graph)

    assert on_disconnect(requested, graph, of_server) == expected
