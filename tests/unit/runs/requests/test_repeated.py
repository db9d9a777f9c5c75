from typing import Any

import pytest
from pydantic import ValidationError

from app.conversations.branching.records import InPlaceOf
from app.ids import RunId
from app.requests.run_request import GraphRunRequest
from app.runs.requests.posted import MessageOrigin, origin_of
from runtally.options import body_of

_IN_PLACE = {"graphId": "messages:a", "stateKey": "c", "forkFrom": "r"}
_HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (_IN_PLACE, None),
        ({**_IN_PLACE, "messages": None}, None),
        ({**_IN_PLACE, "messages": _HI}, None),
        ({**_IN_PLACE, "messages": []}, "at least 1 item"),
        ({**_IN_PLACE, "messages": [{"role": "assistant", "content": "x"}]}, "must be the user's"),
        ({"graphId": "messages:a", "stateKey": "c"}, "is required"),
        ({"graphId": "messages:a", "forkFrom": "r"}, "needs stateKey"),
        ({"graphId": "messages:a", "messages": []}, "at least 1 item"),
    ],
)
def test_messages_may_be_omitted_only_in_place_of_a_run(body: dict[str, Any], error: str | None) -> None:
    if error is not None:
        with pytest.raises(ValidationError, match=error):
            GraphRunRequest.model_validate(body)
        return
    request = GraphRunRequest.model_validate(body)
    assert [message.text for message in request.messages] == (["hi"] if body.get("messages") else [])
    assert origin_of(request) == MessageOrigin(place=InPlaceOf(RunId("r")))


def test_the_python_client_sends_no_messages_only_in_place_of_a_run() -> None:
    options: Any = {"state_key": "c", "fork_from": "r"}

    assert body_of("new", "messages:a", None, options=options) == {**_IN_PLACE, "runId": "new"}
    with pytest.raises(TypeError, match="fork_from"):
        body_of("new", "messages:a", None, options={"state_key": "c"})
