"""OpenAPI responses of the AI SDK wire."""

from typing import Any

STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": (
            "A UI message stream, version 1: each `data:` is a part as JSON, the last one `[DONE]`. Parts: "
            "`start`, `start-step`, `text-start`, `text-delta`, `text-end`, `reasoning-start`, "
            "`reasoning-delta`, `reasoning-end`, `tool-input-available`, `tool-output-available`, "
            "`tool-output-error`, `source-url`, `data-…`, `finish-step`, `message-metadata`, `error`, "
            "`abort`, `finish`; from version 6 on also `tool-approval-request` and `tool-output-denied`."
        ),
        "headers": {
            "x-vercel-ai-ui-message-stream": {"schema": {"type": "string", "enum": ["v1"]}},
        },
        "content": {"text/event-stream": {}},
    }
}
NO_CONTENT: dict[int | str, dict[str, Any]] = {204: {"description": "No answer is running."}}
