"""Generates the TypeScript types of the API from the OpenAPI document.

`python -m tests.web.write_types FILE` writes all types and the ids of messages, for the type checks of
`app/web`; with `--client` those that the TypeScript client in `clients/typescript` uses.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.api_document import api_document

_PROGRAM = Path(__file__).parents[1] / "clients" / "node_modules" / "openapi-typescript" / "bin" / "cli.js"
_MESSAGES = Path(__file__).parents[2] / "app" / "web" / "languages" / "en.ftl"
_OPTIONS = ("--default-non-nullable", "false")
_REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')
_OF_CLIENT = (
    *(
        "AcceptedRunResponse",
        "BalanceResponse",
        "BranchResponse",
        "ClientEvent",
        "ConversationDetailResponse",
    ),
    *("BatchLine", "BatchPreviewResponse", "BatchResponse", "BatchResultResponse", "CreatedBatchResponse"),
    *("ConversationResponse", "Fork", "GraphFinal", "GraphResponse", "GraphRunRequest", "MessageToRun"),
    *("ModelResponse", "PermissionDecision", "Problem", "ReceiptResponse", "RunResponse", "SentToRun"),
    *("ApprovalResponse", "GrantResponse", "ToolResponse", "UsageReportResponse"),
    *(
        "BudgetRequest",
        "BudgetResponse",
        "ConversationFiles",
        "EvidenceResponse",
        "PreviewResponse",
        "RunChange",
    ),
    *("ChangedConversation", "CreatedShare", "ShareResponse"),
    *("AccountBalance", "AccountChange", "AccountResponse", "Adjustment", "AuditResponse", "CreatedKey"),
    *("Grant", "KeyRequest", "ManagedKey", "TopUpRequest"),
)


def write_types(target: str, *, of_client: bool) -> None:
    """Write the types to this file."""
    document = api_document()
    if of_client:
        document = _schemas_only(document, _OF_CLIENT)
    with TemporaryDirectory() as directory:
        source = Path(directory) / "openapi.json"
        source.write_text(json.dumps(document), encoding="utf-8")
        command = ["node", str(_PROGRAM), str(source), "--output", target, *_OPTIONS]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if not of_client:
        with Path(target).open("a", encoding="utf-8") as types:
            types.write(f"export type MessageId = {_message_ids()};\n")


def _message_ids() -> str:
    """The ids of the messages of the pages, as a type."""
    ids = re.findall(r"^([a-z][\w-]*) =", _MESSAGES.read_text(encoding="utf-8"), re.MULTILINE | re.IGNORECASE)
    return " | ".join(f'"{each}"' for each in ids)


def _schemas_only(document: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The document without paths, and with these schemas and those that they refer to."""
    schemas = document["components"]["schemas"]
    kept: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in kept:
            kept.add(name)
            left += _REFERENCE.findall(json.dumps(schemas[name]))
    used = {name: _without_titles(schema) for name, schema in schemas.items() if name in kept}
    return {**document, "paths": {}, "components": {"schemas": used}}


def _without_titles(schema: Any) -> Any:
    """The schema without the titles that pydantic makes of names: `Runid`."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    titled = isinstance(schema.get("title"), str)
    return {
        name: _without_titles(value) for name, value in schema.items() if not (titled and name == "title")
    }


if __name__ == "__main__":
    write_types(sys.argv[1], of_client="--client" in sys.argv)
