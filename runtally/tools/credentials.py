"""CredentialProvider: the interface for operators whose accounts have credentials for tools."""

from typing import Protocol

from runtally.tools.tool import HookContext


class CredentialProvider(Protocol):
    """An async function of the operator that finds credentials of accounts.

    An installed package names it in an entry point of the group `runtally.credentials`; there is one at most.
    If it raises, or takes longer than five seconds, the tool that asked fails.
    """

    async def __call__(self, context: HookContext, /, *, tool_id: str, name: str) -> str | None:
        """What the tool of this id gets for `await context.credential(name)`; None if there is none.

        `context.run.account_id` is the account of the run that calls the tool.
        """
        ...
