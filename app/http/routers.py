"""Every router of the API, in the order of the OpenAPI document."""

from app.http.admission.checks import literal_paths
from app.http.ag_ui.routes import router as ag_ui
from app.http.ai_sdk.routes import router as ai_sdk
from app.http.anthropic.limit_routes import router as spend_limits
from app.http.anthropic.login.routes import router as anthropic_login
from app.http.anthropic.routes import passing as anthropic_calls
from app.http.anthropic.routes import router as anthropic
from app.http.anthropic.telemetry_routes import router as anthropic_telemetry
from app.http.api.accounts.routes import router as accounts
from app.http.api.alarms.routes import router as alarms
from app.http.api.approvals.routes import router as approvals
from app.http.api.audit.routes import router as audit
from app.http.api.balance.routes import router as balance
from app.http.api.batches.routes import router as batches
from app.http.api.browser_session.oidc_routes import router as person_sign_in
from app.http.api.browser_session.routes import router as browser_session
from app.http.api.budgets.routes import router as budgets
from app.http.api.catalogs.routes import router as catalogs
from app.http.api.chain.routes import router as chain
from app.http.api.conversations.routes import router as conversations
from app.http.api.conversations.share_routes import router as shares
from app.http.api.end_users.routes import router as end_users
from app.http.api.exports.routes import router as exports
from app.http.api.files.routes import router as files
from app.http.api.fleet.routes import router as fleet
from app.http.api.generate.routes import router as generate
from app.http.api.guide.routes import router as guide
from app.http.api.health.routes import router as health
from app.http.api.keys.routes import router as keys
from app.http.api.ledger.routes import router as ledger
from app.http.api.logins.routes import router as logins
from app.http.api.metrics.routes import router as metrics
from app.http.api.pages.routes import router as pages
from app.http.api.prices.routes import router as prices
from app.http.api.receipts.routes import router as receipts
from app.http.api.reconciliation.routes import router as reconciliation
from app.http.api.runs.command_routes import router as commands
from app.http.api.runs.routes import router as runs
from app.http.api.schedules.routes import router as schedules
from app.http.api.statements.routes import router as statements
from app.http.api.usage.routes import router as usage
from app.http.api.webhooks.routes import router as webhooks
from app.http.managed_agents.deployments.routes import router as deployments
from app.http.managed_agents.deployments.routes import runs_router as deployment_runs
from app.http.managed_agents.event_routes import router as managed_events
from app.http.managed_agents.routes import router as managed_agents
from app.http.managed_agents.session_routes import router as managed_sessions
from app.http.mcp.routes import metadata_router as mcp_metadata
from app.http.mcp.routes import router as mcp
from app.http.openai.chat.routes import router as openai_chat
from app.http.openai.conversations.routes import router as openai_conversations
from app.http.openai.responses.routes import router as openai_responses
from app.http.openai.routes import router as openai

ROUTERS = (
    *(runs, commands, approvals, batches, schedules, files, conversations, shares),
    *(generate, ag_ui, ai_sdk, openai, openai_chat, openai_responses, openai_conversations),
    *(mcp, mcp_metadata, anthropic_calls, anthropic, anthropic_telemetry, spend_limits, anthropic_login),
    *(managed_agents, managed_sessions, managed_events, deployments, deployment_runs),
    *(
        receipts,
        exports,
        chain,
        prices,
        usage,
        balance,
        ledger,
        statements,
        alarms,
        reconciliation,
        keys,
        accounts,
        budgets,
        audit,
        end_users,
        webhooks,
        catalogs,
    ),
    *(health, fleet, metrics, browser_session, person_sign_in, logins, pages, guide),
)

WORKER_ROUTERS = (health, metrics)
"""Of a process that only executes runs."""

LITERAL_PATHS = literal_paths([route for router in ROUTERS for route in router.routes])
