"""Examination: checks all parts of an installation in order, opened by the server's own functions."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from typing import TypeAlias

from app.billing.reconciliation.calls.counter import record_unbilled
from app.bootstrap.agent import open_agent, open_auth, open_connector, open_schema_checker
from app.bootstrap.dispatch.temporal import open_temporal
from app.bootstrap.event_log import open_relay
from app.bootstrap.roles import Role
from app.bootstrap.storage import attach_database, open_read_side
from app.conversations.transcript_store import TranscriptStore
from app.doctor.catalogs import Catalogs, check_catalogs
from app.doctor.chain import check_chain
from app.doctor.fleet import check_fleet
from app.doctor.issuers import check_issuers
from app.doctor.machine import (
    check_cli,
    check_data_directory,
    check_journal,
    check_sandbox,
    check_sdk,
)
from app.doctor.mcp_servers import check_mcp_servers
from app.doctor.notifications import check_notifications
from app.doctor.objects import check_objects
from app.doctor.probe import UnbilledMetering, probe
from app.doctor.reconciliation import check_reconciliation
from app.doctor.report import Check, Report, without_secrets
from app.doctor.variables import check_variables
from app.errors import AppError, OperatorError
from app.executors.claude_agent.process.cli import Cli, bundled_cli
from app.executors.claude_agent.process.directory import server_directory
from app.platform.db import Database
from app.platform.settings import Settings, SettingsError
from app.workspaces.service import Workspaces

_OF_EXECUTION = frozenset({"sandbox", "sdk", "cli", "auth", "mcp_servers", "probe"})
"""What a process that executes no runs does not have."""

_CheckPart: TypeAlias = Callable[[], Awaitable[Check | list[Check]]]


async def examine(
    settings: Settings,
    *,
    environ: Mapping[str, str],
    file_variables: Collection[str],
    with_probe: bool,
    role: Role = Role.SERVE,
    cli: Cli | None = None,
) -> Report:
    """Check an installation of a process of this role, also while it runs. `cli` replaces the bundled one."""
    catalogs = check_catalogs(settings)
    found = [
        _settings_of(role, settings),
        *check_variables(environ, file_variables, settings),
        *catalogs.checks,
        _webhooks(settings),
    ]
    async with AsyncExitStack() as stack:
        examination = _Examination(settings, stack, catalogs, cli)
        checks: dict[str, _CheckPart] = {
            "sandbox": lambda: check_sandbox(settings, catalogs.graphs.definitions()),
            "data_dir": examination.data_directory,
            "database": examination.database,
            "read_database": examination.read_database,
            "chain": lambda: check_chain(settings, examination.opened),
            "fleet": lambda: check_fleet(examination.opened),
            "event_log": examination.event_log,
            "objects": lambda: check_objects(settings, examination.opened),
            "dispatcher": examination.dispatcher,
            "journal": lambda: check_journal(settings),
            "sdk": examination.sdk,
            "cli": examination.cli,
            "auth": examination.auth,
            "issuers": lambda: check_issuers(settings),
            "reconciliation": lambda: check_reconciliation(settings),
            "mcp_servers": examination.mcp_servers,
            "probe": examination.probe,
        }
        skipped = set() if role.executes_runs else _OF_EXECUTION
        skipped |= set() if with_probe else {"probe"}
        for name, check in checks.items():
            if name not in skipped:
                found += await _run_check(name, check)
    return Report(without_secrets(found, settings))


class _Examination:
    """Opens the parts in order and keeps those open that later parts need, `opened` the database."""

    def __init__(
        self, settings: Settings, stack: AsyncExitStack, catalogs: Catalogs, cli: Cli | None
    ) -> None:
        self._settings = settings
        self._stack = stack
        self._catalogs = catalogs
        self._other_cli = cli
        self.opened: Database | None = None

    @property
    def _cli(self) -> Cli:
        return self._other_cli or Cli(bundled_cli())

    async def data_directory(self) -> Check:
        return check_data_directory(self._settings)

    async def database(self) -> list[Check]:
        database = await self._stack.enter_async_context(attach_database(self._settings))
        newer = await database.require_usable_schema()
        self.opened = database
        what = "embedded PostgreSQL" if self._settings.database_url is None else "DATABASE_URL"
        found = [await check_notifications(database)]
        if newer is None:
            return [Check("database", "ok", f"{what} is reachable and has this version's schema"), *found]
        detail = f"{what} is reachable; a newer release migrated it to {newer}, which this one can use"
        return [Check("database", "warning", detail), *found]

    async def read_database(self) -> list[Check]:
        if self.opened is None or self._settings.database_read_url is None:
            return [Check("read_database", "ok", "lists and reports are read from the database itself")]
        async with open_read_side(self._settings, self.opened) as reading:
            if reading.problem is None:
                detail = f"DATABASE_READ_URL is reachable; it is {reading.lag_s:.1f} s behind"
                return [Check("read_database", "ok", detail)]
        detail = "DATABASE_READ_URL cannot be used, so lists and reports are read from DATABASE_URL; {}"
        return [Check("read_database", "warning", detail.format(reading.problem))]

    async def event_log(self) -> list[Check]:
        if (relay := await open_relay(self._settings, self._stack)) is not None:
            return [Check("event_log", "ok", f"REDIS_URL ({relay}) carries messages")]
        detail = "in the server's memory, or with `--processes` in the command's own Valkey"
        return [Check("event_log", "ok", detail)]

    async def dispatcher(self) -> list[Check]:
        if await open_temporal(self._settings, "runtally doctor") is None:
            return [Check("dispatcher", "ok", "the database")]
        return [Check("dispatcher", "ok", "TEMPORAL_ADDRESS is reachable and has TEMPORAL_NAMESPACE")]

    async def sdk(self) -> Check:
        return check_sdk()

    async def cli(self) -> list[Check]:
        with server_directory(self._settings.data_dir.absolute() / "runs") as directory:
            return [await check_cli(self._cli, directory)]

    async def auth(self) -> list[Check]:
        """Check the API key or the login; with a key also the gateway."""
        with server_directory(self._settings.data_dir.absolute() / "runs") as directory:
            async with open_auth(self._settings, self._cli, directory) as auth:
                problem = await auth.problem()
        found = [] if auth.login else [Check("gateway", "ok", "listens on loopback")]
        if problem is not None:
            return [*found, Check("auth", "error", problem)]
        message = "the machine's own login" if auth.login else "ANTHROPIC_API_KEY was not refused"
        return [*found, Check("auth", "ok", f"{self._settings.claude_auth}: {message}")]

    async def mcp_servers(self) -> list[Check]:
        """Connect to the MCP servers of each graph, as its runs do."""
        key = self._settings.mcp_token_key
        async with open_schema_checker(self._settings) as schemas:
            connector = open_connector(self._settings, self.opened, schemas)
            graphs = self._catalogs.graphs.definitions()
            return await check_mcp_servers(graphs, connector, has_token_key=key is not None)

    async def probe(self) -> list[Check]:
        if self.opened is None or self._catalogs.models is None:
            return [Check("probe", "error", "not made: it needs the database and the models")]
        billing = UnbilledMetering(self._catalogs.prices)
        sessions = TranscriptStore(self.opened)
        alone = self._settings.model_copy(update={"idle_processes": 0})
        async with AsyncExitStack() as stack:
            workspaces = Workspaces(self.opened, alone.allowed_host_roots)
            schemas = await stack.enter_async_context(open_schema_checker(alone))
            agent = await stack.enter_async_context(
                open_agent(
                    alone,
                    billing,
                    sessions,
                    database=self.opened,
                    workspaces=workspaces,
                    schemas=schemas,
                    cli=self._cli,
                )
            )
            found = await probe(agent.executor, self._catalogs.models, billing)
        for message in billing.messages.values():
            # The provider's reports contain it, and no receipt does.
            await record_unbilled(self.opened, message.model, message.usage, at=message.at)
        return found


async def _run_check(name: str, check: _CheckPart) -> list[Check]:
    try:
        found = await check()
        return [found] if isinstance(found, Check) else found
    except AppError as error:
        return [Check(name, "error", error.detail)]
    except OperatorError as error:
        return [Check(name, "error", str(error))]
    except Exception as error:  # noqa: BLE001 - an error in one part must not hide those in others
        return [Check(name, "error", f"{type(error).__name__}: {error}")]


def _settings_of(role: Role, settings: Settings) -> Check:
    try:
        role.require_settings(settings)
    except SettingsError as error:
        return Check("settings", "error", str(error))
    return Check("settings", "ok", "all settings are valid")


def _webhooks(settings: Settings) -> Check:
    if settings.webhook_allow_private:
        message = "RUNTALLY_WEBHOOK_ALLOW_PRIVATE allows addresses in the server's own network"
        return Check("webhooks", "warning", message)
    return Check("webhooks", "ok", "public https addresses only")
