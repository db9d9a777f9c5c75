"""The form of errors of Managed Agents, and why some of its paths are not served."""

from typing import Any, Final

from app.http.anthropic.errors import AnthropicErrors
from app.http.foreign_errors import ForeignError

PATH: Final = "/managed-agents/v1"

_NOT_SERVED: Final = {
    "agents": "Agents are the graphs of this server, which are files: they cannot be changed here.",
    "environments": "This server has one environment, env_default; remote sandboxes are not served.",
    "webhooks": "Webhooks are registered at POST /v1/webhooks.",
}
_UNKNOWN: Final = {"not_found", "method_not_allowed"}


class ManagedAgentsErrors(AnthropicErrors):
    """Answers with errors as clients of Managed Agents read them."""

    paths = ("/managed-agents",)

    def translate(self, problem: dict[str, Any], headers: dict[bytes, bytes]) -> ForeignError:
        kind = problem["instance"].removeprefix(f"{PATH}/").partition("/")[0]
        if problem["code"] in _UNKNOWN and kind in _NOT_SERVED:
            problem = {**problem, "detail": _NOT_SERVED[kind]}
        return super().translate(problem, headers)
