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
    from runtally.tools.hooks import (
        Hooks as Hooks,
        SessionResult as SessionResult,
        ToolCall as ToolCall,
    )
    from runtally.tools.result import (
        ToolResult as ToolResult,
    )
    from runtally.tools.tool import (
        HookContext as HookContext,
        Tool as Tool,
        ToolContext as ToolContext,
        ToolFailed as ToolFailed,
        ToolOutput as ToolOutput,
        tool as tool,
    )
    from runtally.protocol.billing import (
        Balance as Balance,
        Receipt as Receipt,
        ReceiptLine as ReceiptLine,
        TopUp as TopUp,
        UsageItem as UsageItem,
        UsageReport as UsageReport,
        UsageSums as UsageSums,
    )
    from runtally.accounts.budgets import (
        Budget as Budget,
    )
    from runtally.accounts.types import (
        Account as Account,
        AccountBalance as AccountBalance,
        ApiKey as ApiKey,
        AuditEntry as AuditEntry,
    )
    from runtally.async_client import (
        AsyncClient as AsyncClient,
    )
    from runtally.client import (
        Client as Client,
    )
    from runtally.client_tools import (
        ClientTool as ClientTool,
    )
    from runtally.errors import (
        ApiError as ApiError,
        ConfigurationError as ConfigurationError,
        Conflict as Conflict,
        ConnectionFailed as ConnectionFailed,
        FieldError as FieldError,
        Forbidden as Forbidden,
        Gone as Gone,
        InsufficientCredits as InsufficientCredits,
        InvalidRequest as InvalidRequest,
        InvalidResponse as InvalidResponse,
        NotFound as NotFound,
        RateLimited as RateLimited,
        RuntallyError as RuntallyError,
        ServerUnavailable as ServerUnavailable,
        Unauthenticated as Unauthenticated,
    )
    from runtally.events import (
        AssistantFinal as AssistantFinal,
        BudgetReached as BudgetReached,
        Citation as Citation,
        ClientToolCall as ClientToolCall,
        Done as Done,
        Event as Event,
        FilesChanged as FilesChanged,
        Interrupted as Interrupted,
        MessageDiscarded as MessageDiscarded,
        PermissionRequest as PermissionRequest,
        PermissionResolved as PermissionResolved,
        QuestionAsked as QuestionAsked,
        QuestionResolved as QuestionResolved,
        Queued as Queued,
        RunError as RunError,
        RunStarted as RunStarted,
        RunWarning as RunWarning,
        Status as Status,
        Step as Step,
        TextDelta as TextDelta,
        ThinkingDelta as ThinkingDelta,
        ToolCallResult as ToolCallResult,
        ToolCallStart as ToolCallStart,
        UnknownEvent as UnknownEvent,
        UserMessageDelivered as UserMessageDelivered,
    )
    from runtally.options import (
        DecisionOptions as DecisionOptions,
        Limits as Limits,
        Message as Message,
        RunOptions as RunOptions,
    )
    from runtally.streams import (
        AsyncRunStream as AsyncRunStream,
        RunStream as RunStream,
    )
    from runtally.types import (
        Approval as Approval,
        Batch as Batch,
        BatchPreview as BatchPreview,
        BatchResult as BatchResult,
        Branch as Branch,
        Conversation as Conversation,
        ConversationFiles as ConversationFiles,
        ConversationMessage as ConversationMessage,
        CreatedShare as CreatedShare,
        Evidence as Evidence,
        Feedback as Feedback,
        FileChange as FileChange,
        FileChanges as FileChanges,
        FinalUsage as FinalUsage,
        Forecast as Forecast,
        Grant as Grant,
        Graph as Graph,
        GraphFinal as GraphFinal,
        LanguageModel as LanguageModel,
        Run as Run,
        RunBilling as RunBilling,
        RunFailed as RunFailed,
        RunFile as RunFile,
        RunPreview as RunPreview,
        SentMessage as SentMessage,
        Share as Share,
        StartedRun as StartedRun,
        Suggestion as Suggestion,
        ToolDescription as ToolDescription,
    )

_PLACES = {
    "runtally.tools.hooks": ("Hooks", "SessionResult", "ToolCall"),
    "runtally.tools.result": ("ToolResult",),
    "runtally.tools.tool": ("HookContext", "Tool", "ToolContext", "ToolFailed", "ToolOutput", "tool"),
    "runtally.protocol.billing": (
        *("Balance", "Receipt", "ReceiptLine", "TopUp", "UsageItem", "UsageReport", "UsageSums"),
    ),
    "runtally.accounts.budgets": ("Budget",),
    "runtally.accounts.types": ("Account", "AccountBalance", "ApiKey", "AuditEntry"),
    "runtally.async_client": ("AsyncClient",),
    "runtally.client": ("Client",),
    "runtally.client_tools": ("ClientTool",),
    "runtally.errors": (
        *("ApiError", "ConfigurationError", "Conflict", "ConnectionFailed", "FieldError", "Forbidden"),
        *("Gone", "InsufficientCredits", "InvalidRequest", "InvalidResponse", "NotFound", "RateLimited"),
        *("RuntallyError", "ServerUnavailable", "Unauthenticated"),
    ),
    "runtally.events": (
        *("AssistantFinal", "Done", "Event", "Interrupted", "MessageDiscarded"),
        *("PermissionRequest", "PermissionResolved", "QuestionAsked", "QuestionResolved"),
        *("Queued", "RunError", "RunStarted", "Status", "Step", "TextDelta", "ThinkingDelta"),
        *("ToolCallResult", "ToolCallStart", "UnknownEvent", "UserMessageDelivered"),
        *("BudgetReached", "Citation", "ClientToolCall", "FilesChanged", "RunWarning"),
    ),
    "runtally.options": ("DecisionOptions", "Limits", "Message", "RunOptions"),
    "runtally.streams": ("AsyncRunStream", "RunStream"),
    "runtally.types": (
        *("Approval", "Batch", "BatchPreview", "BatchResult", "FileChange", "FileChanges", "Forecast"),
        *("Branch", "Conversation", "ConversationMessage", "FinalUsage", "Graph", "GraphFinal"),
        *("ConversationFiles", "CreatedShare", "Evidence", "Feedback", "Grant", "LanguageModel", "Run"),
        *("RunBilling", "RunFailed", "RunFile", "RunPreview", "SentMessage", "StartedRun", "Suggestion"),
        *("Share", "ToolDescription"),
    ),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
