"""Graphs, tools and models from the operator's files and settings."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import structlog

from app import __version__
from app.billing.prices.library import model_key
from app.billing.prices.price_list import PriceList
from app.bootstrap.prices import price_list
from app.bootstrap.roles import Role
from app.errors import Invalid
from app.executors.claude_agent import graph_keys as claude_agent
from app.executors.claude_agent.tools.builtin_tools import ruled_tool
from app.executors.inbox import MessageLimits
from app.executors.messages_api import graph_keys as messages_api
from app.graphs.catalog import SHIPPED_GRAPHS, GraphCatalog, GraphCheck
from app.graphs.file import GraphDefinitionError
from app.graphs.rules.checking import RuledTool
from app.models.deprecations import announced_ends
from app.models.file import read_models
from app.models.registry import ModelRegistry
from app.platform.metrics.families import KnownNames
from app.platform.metrics.server import ServerMetrics
from app.platform.settings import Settings, SettingsError
from app.runs.planner import RunPlanner
from app.runs.requests.attachments import AttachmentRules
from app.runs.titling.service import GRAPH as TITLING_GRAPH
from app.tools.catalog import ToolCatalog
from app.tools.skills.library import NO_SKILLS, SkillLibrary

log = structlog.get_logger(__name__)


def _graph_checks(settings: Settings) -> Mapping[str, GraphCheck]:
    """The checks of executor-specific keys, by the provider in a graph's id."""
    checks: dict[str, GraphCheck] = {claude_agent.PROVIDER: claude_agent.check_graph}
    if settings.claude_auth != "local_session":
        # Without a gateway there is nothing that this executor could call.
        checks[messages_api.PROVIDER] = messages_api.check_graph
    return checks


def load_graphs(
    settings: Settings,
    tools: ToolCatalog,
    skills: SkillLibrary = NO_SKILLS,
    *,
    problems: list[GraphDefinitionError] | None = None,
) -> GraphCatalog:
    """The graphs of this server; see `GraphCatalog.load`."""
    return GraphCatalog.load(
        _graph_directories(settings),
        checks=_graph_checks(settings),
        known_tools=tools.ids(),
        known_secrets=settings.mcp_secrets,
        skills=skills,
        host_roots=settings.allowed_host_roots,
        describe=partial(_ruled_tool, tools),
        problems=problems,
    )


def _ruled_tool(tools: ToolCatalog, tool_id: str) -> RuledTool:
    if tool_id not in tools.ids():
        return ruled_tool(tool_id)
    tool = tools.get(tool_id)
    return RuledTool(tool.effect, tool.input_schema)


def open_planner(settings: Settings) -> RunPlanner:
    """The planner of this server's runs; raises the first error in its graphs, tools, models or prices."""
    tools = ToolCatalog.load(settings.tools, project_directory())
    skills = SkillLibrary.load(settings.skills_dir)
    graphs = load_graphs(settings, tools, skills)
    prices = price_list(settings)
    models = model_registry(settings, prices)
    graphs.require_models(lambda name: _problem_of(models, name))
    _require_titles(settings, models, graphs)
    for problem in announced_ends(models, graphs.definitions(), today=datetime.now(UTC).date()):
        log.warning("model.deprecated", problem=problem)
    timeout = timedelta(seconds=settings.run_timeout_s)
    return RunPlanner(graphs, models, tools, prices, timeout, attachment_rules(settings), skills)


def _require_titles(settings: Settings, models: ModelRegistry, graphs: GraphCatalog) -> None:
    """Raises `SettingsError` if titles are wanted of a model, or an executor, that there is not."""
    if settings.title_model is None:
        return
    problem = _problem_of(models, settings.title_model)
    if problem is None and graphs.find(TITLING_GRAPH) is None:
        problem = f"needs the graph {TITLING_GRAPH}, which needs an API key of the provider"
    if problem is not None:
        raise SettingsError(f"RUNTALLY_TITLE_MODEL: {problem}")


def open_metrics(planner: RunPlanner, role: Role) -> ServerMetrics:
    """The metrics of this server; their labels are the names of its graphs and of all priced models."""
    return ServerMetrics.create(
        graphs=KnownNames(frozenset(graph.id for graph in planner.graphs.all())),
        models=KnownNames(frozenset(planner.prices.priced_models()), model_key),
        version=__version__,
        role=role.value,
    )


def _problem_of(models: ModelRegistry, name: str) -> str | None:
    try:
        models.resolve(None, name)
    except Invalid as error:
        return error.errors[0].message
    return None


def message_limits(settings: Settings) -> MessageLimits:
    """The limits of messages that wait for the agent of a run."""
    return MessageLimits(settings.max_waiting_messages, settings.max_body_bytes)


def attachment_rules(settings: Settings) -> AttachmentRules:
    """What messages may have attached."""
    return AttachmentRules(
        by_url=settings.attachment_urls,
        max_count=settings.max_attachments,
        max_bytes=settings.max_attachment_bytes,
    )


def model_registry(settings: Settings, prices: PriceList) -> ModelRegistry:
    """The models of this server; raises `ModelFileError` and `SettingsError`."""
    own = None if settings.models_file is None else read_models(settings.models_file)
    try:
        return ModelRegistry(
            settings.default_model,
            own,
            is_priced=lambda model: prices.is_priced(model, at=datetime.now(UTC)),
        )
    except Invalid as error:
        raise SettingsError(error.detail) from error


def project_directory() -> Path:
    """Where tool modules that are not installed are looked for: the directory of `.env`."""
    return Path.cwd()


def _graph_directories(settings: Settings) -> list[Path]:
    return [SHIPPED_GRAPHS, *([settings.graphs_dir] if settings.graphs_dir else [])]
