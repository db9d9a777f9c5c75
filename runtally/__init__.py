"""The public package of Runtally: the interface for authors of tools, and a typed client of the HTTP API.

A tool:

    from runtally import ToolContext, ToolOutput, tool

A client, which reads RUNTALLY_URL and RUNTALLY_API_KEY:

    from runtally import Client

    with Client() as client:
        print(client.run("claude_agents:assistant", "What time is it in Tokyo?").content)

Names are imported when they are used, so that `import runtally` takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.tools.tool import (
        Tool as Tool,
    )
    from app.tools.tool import (
        ToolContext as ToolContext,
    )
    from app.tools.tool import (
        ToolFailed as ToolFailed,
    )
    from app.tools.tool import (
        ToolOutput as ToolOutput,
    )
    from app.tools.tool import (
        tool as tool,
    )
    from runtally.async_client import (
        AsyncClient as AsyncClient,
    )
    from runtally.client import (
        Client as Client,
    )
    from runtally.errors import (
        ApiError as ApiError,
    )
    from runtally.errors import (
        ConfigurationError as ConfigurationError,
    )
    from runtally.errors import (
        Conflict as Conflict,
    )
    from runtally.errors import (
        ConnectionFailed as ConnectionFailed,
    )
    from runtally.errors import (
        FieldError as FieldError,
    )
    from runtally.errors import (
        Forbidden as Forbidden,
    )
    from runtally.errors import (
        Gone as Gone,
    )
    from runtally.errors import (
        InsufficientCredits as InsufficientCredits,
    )
    from runtally.errors import (
        InvalidRequest as InvalidRequest,
    )
    from runtally.errors import (
        InvalidResponse as InvalidResponse,
    )
    from runtally.errors import (
        NotFound as NotFound,
    )
    from runtally.errors import (
        RateLimited as RateLimited,
    )
    from runtally.errors import (
        RunFailed as RunFailed,
    )
    from runtally.errors import (
        RuntallyError as RuntallyError,
    )
    from runtally.errors import (
        ServerUnavailable as ServerUnavailable,
    )
    from runtally.errors import (
        Unauthenticated as Unauthenticated,
    )
    from runtally.events import (
        AssistantFinal as AssistantFinal,
    )
    from runtally.events import (
        Done as Done,
    )
    from runtally.events import (
        Event as Event,
    )
    from runtally.events import (
        Interrupted as Interrupted,
    )
    from runtally.events import (
        PermissionRequest as PermissionRequest,
    )
    from runtally.events import (
        PermissionResolved as PermissionResolved,
    )
    from runtally.events import (
        Queued as Queued,
    )
    from runtally.events import (
        RunError as RunError,
    )
    from runtally.events import (
        RunStarted as RunStarted,
    )
    from runtally.events import (
        Status as Status,
    )
    from runtally.events import (
        Step as Step,
    )
    from runtally.events import (
        TextDelta as TextDelta,
    )
    from runtally.events import (
        ThinkingDelta as ThinkingDelta,
    )
    from runtally.events import (
        ToolCallResult as ToolCallResult,
    )
    from runtally.events import (
        ToolCallStart as ToolCallStart,
    )
    from runtally.events import (
        UnknownEvent as UnknownEvent,
    )
    from runtally.events import (
        UserMessageDelivered as UserMessageDelivered,
    )
    from runtally.options import (
        Limits as Limits,
    )
    from runtally.options import (
        Message as Message,
    )
    from runtally.options import (
        RunOptions as RunOptions,
    )
    from runtally.streams import (
        AsyncRunStream as AsyncRunStream,
    )
    from runtally.streams import (
        RunStream as RunStream,
    )
    from runtally.types import (
        Balance as Balance,
    )
    from runtally.types import (
        Conversation as Conversation,
    )
    from runtally.types import (
        ConversationMessage as ConversationMessage,
    )
    from runtally.types import (
        FinalUsage as FinalUsage,
    )
    from runtally.types import (
        Graph as Graph,
    )
    from runtally.types import (
        GraphFinal as GraphFinal,
    )
    from runtally.types import (
        LanguageModel as LanguageModel,
    )
    from runtally.types import (
        Receipt as Receipt,
    )
    from runtally.types import (
        ReceiptLine as ReceiptLine,
    )
    from runtally.types import (
        Run as Run,
    )
    from runtally.types import (
        RunBilling as RunBilling,
    )
    from runtally.types import (
        RunFile as RunFile,
    )
    from runtally.types import (
        SentMessage as SentMessage,
    )
    from runtally.types import (
        StartedRun as StartedRun,
    )
    from runtally.types import (
        ToolDescription as ToolDescription,
    )
    from runtally.types import (
        UsageItem as UsageItem,
    )
    from runtally.types import (
        UsageReport as UsageReport,
    )
    from runtally.types import (
        UsageSums as UsageSums,
    )

_PLACES = {
    "app.tools.tool": ("Tool", "ToolContext", "ToolFailed", "ToolOutput", "tool"),
    "runtally.async_client": ("AsyncClient",),
    "runtally.client": ("Client",),
    "runtally.errors": (
        *("ApiError", "ConfigurationError", "Conflict", "ConnectionFailed", "FieldError", "Forbidden"),
        *("Gone", "InsufficientCredits", "InvalidRequest", "InvalidResponse", "NotFound", "RateLimited"),
        *("RunFailed", "RuntallyError", "ServerUnavailable", "Unauthenticated"),
    ),
    "runtally.events": (
        *("AssistantFinal", "Done", "Event", "Interrupted", "PermissionRequest", "PermissionResolved"),
        *("Queued", "RunError", "RunStarted", "Status", "Step", "TextDelta", "ThinkingDelta"),
        *("ToolCallResult", "ToolCallStart", "UnknownEvent", "UserMessageDelivered"),
    ),
    "runtally.options": ("Limits", "Message", "RunOptions"),
    "runtally.streams": ("AsyncRunStream", "RunStream"),
    "runtally.types": (
        *("Balance", "Conversation", "ConversationMessage", "FinalUsage", "Graph", "GraphFinal"),
        *(
            "LanguageModel",
            "Receipt",
            "ReceiptLine",
            "Run",
            "RunBilling",
            "RunFile",
            "SentMessage",
            "StartedRun",
        ),
        *("ToolDescription", "UsageItem", "UsageReport", "UsageSums"),
    ),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _MODULE_OF:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
