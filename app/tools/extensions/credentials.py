"""AccountCredentials: what tools get from the operator's provider of credentials."""

from functools import partial
from typing import Final

import structlog
from pydantic import JsonValue, SecretStr

from app.platform.logs.secrets import without_secrets
from app.tools.extensions.calling import ExtensionFailed, call_extension
from runtally.tools.content import ToolContent, ToolText
from runtally.tools.credentials import CredentialProvider
from runtally.tools.result import ToolResult
from runtally.tools.tool import HookContext, ToolFailed

log = structlog.get_logger(__name__)

_NONE: Final = "The account has no credential for this tool."
_UNAVAILABLE: Final = "The account's credential for this tool is not available now."


class CallCredentials:
    """The credentials that one call of a tool asks for."""

    def __init__(self, provider: CredentialProvider | None, context: HookContext, tool_id: str) -> None:
        self._provider = provider
        self._context = context
        self._tool_id = tool_id
        self.given: list[str] = []

    async def get(self, name: str) -> SecretStr:
        if self._provider is None:
            raise ToolFailed(_NONE)
        find = partial(self._provider, self._context, tool_id=self._tool_id, name=name)
        try:
            found = _text(await call_extension(find))
        except ExtensionFailed as error:
            # Without a traceback, and without the text of the error: they may contain the credential.
            log.error("credentials.failed", tool_id=self._tool_id, name=name, reason=str(error))  # noqa: TRY400
            raise ToolFailed(_UNAVAILABLE) from None
        if found is None:
            raise ToolFailed(_NONE)
        self.given.append(found)
        return SecretStr(found)

    def hidden_in(self, result: ToolResult) -> ToolResult:
        if not self.given:
            return result
        return ToolResult(
            without_secrets(result.markdown, self.given),
            self._hidden(result.visible),
            result.code,
            tuple(self._hidden_part(part) for part in result.content),
        )

    def _hidden(self, value: JsonValue) -> JsonValue:
        match value:
            case str():
                return without_secrets(value, self.given)
            case list():
                return [self._hidden(item) for item in value]
            case dict():
                return {name: self._hidden(item) for name, item in value.items()}
        return value

    def _hidden_part(self, part: ToolContent) -> ToolContent:
        return ToolText(without_secrets(part.text, self.given)) if isinstance(part, ToolText) else part


def _text(answer: object) -> str | None:
    if answer is None or (isinstance(answer, str) and answer):
        return answer
    raise ExtensionFailed("returned neither a text nor None")
