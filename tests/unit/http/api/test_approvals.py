"""What the list of calls that wait shows of each kind."""

from datetime import UTC, datetime
from typing import Any

from app.executors.waiting.port import WaitKind
from app.http.api.approvals.schemas import ApprovalsResponse
from app.ids import RunId
from app.runs.waits.listing.records import OpenCall
from app.runs.waits.listing.service import AccountCallPage

AT = datetime(2026, 11, 26, 12, tzinfo=UTC)


def a_call(kind: WaitKind, **request: Any) -> OpenCall:
    return OpenCall(RunId("r1"), "c1", kind, "messages:mailer", None, request, AT, AT)


def test_each_kind_has_what_its_answer_needs() -> None:
    asked = {"question": "Which?", "options": [], "multiSelect": False}
    calls = [
        a_call("permission", toolCallId="t1", toolName="office__mail", args={"to": "bob"}, grantable=True),
        a_call("question", source="agent", questions=[asked]),
        a_call("client_tool", toolCallId="c1", toolName="pick", args={}),
        a_call("budget", spentUsd="0.0105", maxBudgetUsd="0.01"),
    ]
    page = AccountCallPage(calls, None, {"permission": 1, "client_tool": 4})
    shown, without_money = (
        ApprovalsResponse.of(page, shows_money=shows_money).model_dump(mode="json", by_alias=True)
        for shows_money in (True, False)
    )

    assert [each["kind"] for each in shown["items"]] == ["approval", "question", "client_tool", "budget"]
    assert [each["toolName"] for each in shown["items"]] == ["office__mail", None, "pick", None]
    assert [each["grantable"] for each in shown["items"]] == [True, False, False, False]
    budget = {"spentUsd": "0.0105000000", "maxBudgetUsd": "0.0100000000"}
    assert [each["budget"] for each in shown["items"]] == [None, None, None, budget]
    assert not any(each["budget"] for each in without_money["items"])
    assert shown["items"][1]["questions"][0]["question"] == "Which?"
    assert {each["requestId"] for each in shown["items"]} == {"c1"}
    assert shown["counts"] == {"approval": 1, "question": 0, "clientTool": 4, "budget": 0}


def test_only_calls_of_tools_of_this_server_have_a_schema_for_who_may_decide() -> None:
    calls = [
        a_call("permission", toolName="office__mail", args={"to": "bob"}),
        a_call("permission", toolName="Bash", args={}),
        a_call("client_tool", toolName="office__mail", args={}),
    ]
    page, schemas = AccountCallPage(calls, None, {}), {"office__mail": {"type": "object"}}

    for_deciders = ApprovalsResponse.of(page, shows_money=False, schema_of=schemas.get)
    assert [each.input_schema for each in for_deciders.items] == [{"type": "object"}, None, None]
    others = ApprovalsResponse.of(page, shows_money=False)
    assert [each.input_schema for each in others.items] == [None, None, None]
