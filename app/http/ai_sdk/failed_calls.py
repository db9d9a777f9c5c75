"""Errors of tool calls as parts of the AI SDK; pure."""

import json

from pydantic import JsonValue

from app.http.ai_sdk.blocks import Part


def failed(call_id: str, reason: str) -> Part:
    """The part of a call that has failed."""
    return {
        "type": "tool-output-error",
        "toolCallId": call_id,
        "errorText": failed_call(reason),
    }


def failed_call(reason: str) -> str:
    """The text of a tool call's error."""
    return f"The tool call failed: {reason}."


def reason_of(result: JsonValue) -> str:
    """Why a tool call failed, from its result."""
    match result:
        case {"error": str(code)}:
            return code
        case _:
            return json.dumps(result)
