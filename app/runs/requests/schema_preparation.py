"""SchemaPreparation: prepares the JSON schemas of a request, and checks its input, once for the whole run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.errors import Invalid
from app.executors.port import NO_SCHEMAS, ClientToolSchema, RunSchemas
from app.graphs.spec import GraphSpec
from app.ids import AccountId
from app.platform.concurrency.offload import Offload
from app.platform.json_schema.checker import SchemaChecker, ValueUncheckable
from app.platform.json_schema.document import SchemaDocument, SchemaUnusable
from app.platform.json_schema.model_schema import ModelSchema, model_schema
from app.requests.client_tools import ClientTool
from app.requests.run_request import GraphRunRequest
from app.tools.argument_schema import argument_schema
from app.tools.modern_schema import modern_schema


@dataclass(frozen=True, slots=True)
class SchemaPreparation:
    """Checks schemas in processes that can be killed, and converts them off the event loop.

    `account_id` is None for a run that was accepted: its schemas were checked then.
    """

    checker: SchemaChecker
    offload: Offload

    async def prepare(
        self,
        request: GraphRunRequest,
        spec: GraphSpec,
        *,
        account_id: AccountId | None,
        known: RunSchemas = NO_SCHEMAS,
    ) -> RunSchemas:
        """Those of a request, some of which are `known`.

        Raises `Invalid` naming the first unusable one, or what in the input the graph does not take.
        """
        if account_id is not None and request.input is not None:
            await self._check_input(request.input, spec, account_id)
        answer, client_tools = known.answer or spec.output, dict(known.client_tools)
        if known.answer is None and (wanted := request.response_format) is not None:
            answer = await self.answer(wanted.schema_, field="responseFormat.schema", account_id=account_id)
        for index, tool in enumerate(request.client_tools):
            if tool.name not in client_tools:
                with _naming(f"clientTools.{index}.inputSchema"):
                    client_tools[tool.name] = await self._client_tool(tool.input_schema, account_id)
        return RunSchemas(answer, client_tools)

    async def _check_input(self, given: dict[str, Any], spec: GraphSpec, account_id: AccountId) -> None:
        if spec.input is None:
            raise Invalid.field("input", f"is not taken by the graph {spec.id}: send messages")
        try:
            mismatch = await self.checker.mismatch(spec.input, given, owner=str(account_id))
        except (SchemaUnusable, ValueUncheckable) as error:
            raise Invalid.field("input", f"cannot be checked: {error}") from error
        if mismatch is not None:
            raise Invalid.field(".".join(["input", *mismatch.path]), mismatch.reason)

    async def answer(
        self, schema: dict[str, Any], *, field: str, account_id: AccountId | None
    ) -> ModelSchema:
        """The schema of an answer; raises `Invalid` naming the field if it cannot be used."""
        with _naming(field):
            document = await self._document(schema, account_id)
            return await self.offload.run(partial(model_schema, document), size=len(document.text))

    async def usable(self, tools: Sequence[ClientTool], *, account_id: AccountId) -> RunSchemas:
        found: dict[str, ClientToolSchema] = {}
        for tool in tools:
            with suppress(SchemaUnusable):
                found[tool.name] = await self._client_tool(tool.input_schema, account_id)
        return RunSchemas(client_tools=found)

    async def _client_tool(self, schema: dict[str, Any], account_id: AccountId | None) -> ClientToolSchema:
        checked = await self._document(schema, account_id)
        convert = partial(_shown, schema)
        shown, note = await self.offload.run(convert, size=len(checked.text))
        # What the model gets is checked as well: it must be a valid schema on its own.
        await self._document(shown, account_id)
        return ClientToolSchema(checked, shown, note)

    async def _document(self, schema: dict[str, Any], account_id: AccountId | None) -> SchemaDocument:
        if account_id is None:
            return SchemaDocument.of(schema)
        return await self.checker.require_usable(schema, owner=str(account_id))


def _shown(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    return argument_schema(modern_schema(schema))


@contextmanager
def _naming(field: str) -> Iterator[None]:
    try:
        yield
    except SchemaUnusable as error:
        message = f"is not a JSON schema that can be used: {error.where} {error.reason}"
        raise Invalid.field(field, message) from error
