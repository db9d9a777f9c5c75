"""Graphs, tools and models from the operator's files and settings."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from app.billing.prices.price_list import PriceList
from app.bootstrap.prices import price_list
from app.executors.claude_agent.graph_keys import check_graph
from app.executors.inbox import MessageLimits
from app.graphs.catalog import SHIPPED_GRAPHS, GraphCatalog, GraphCheck
from app.models.deprecations import announced_ends
from app.models.file import read_models
from app.models.registry import ModelRegistry
from app.runs.planner import RunPlanner
from app.settings import Settings
from app.tools.catalog import ToolCatalog

log = structlog.get_logger(__name__)


GRAPH_CHECKS: Mapping[str, GraphCheck] = {"claude_agents": check_graph}
"""Checks of executor-specific keys, by the provider in a graph's id."""


def open_planner(settings: Settings) -> RunPlanner:
    """The planner of this server's runs; raises the first error in its graphs, tools, models or prices."""
    tools = ToolCatalog.load(settings.tools)
    graphs = GraphCatalog.load(
        graph_directories(settings),
        checks=GRAPH_CHECKS,
        known_tools=tools.ids(),
        known_secrets=settings.mcp_secrets,
        host_roots=settings.allowed_host_roots,
    )
    prices = price_list(settings)
    models = model_registry(settings, prices)
    for problem in announced_ends(models, graphs.all(), today=datetime.now(UTC).date()):
        log.warning("model.deprecated", problem=problem)
    timeout = timedelta(seconds=settings.run_timeout_s)
    return RunPlanner(graphs, models, tools, prices, timeout)


def message_limits(settings: Settings) -> MessageLimits:
    """The limits of messages that wait for the agent of a run."""
    return MessageLimits(settings.max_waiting_messages, settings.max_body_bytes)


def model_registry(settings: Settings, prices: PriceList) -> ModelRegistry:
    """The models of this server; raises `ModelFileError`, `UnknownModel` and `ModelNotPriced`."""
    own = None if settings.models_file is None else read_models(settings.models_file)
    return ModelRegistry(
        settings.default_model,
        own,
        is_priced=lambda model: prices.is_priced(model, at=datetime.now(UTC)),
    )


def graph_directories(settings: Settings) -> list[Path]:
    """The directories of this server's graphs."""
    return [SHIPPED_GRAPHS, *([settings.graphs_dir] if settings.graphs_dir else [])]
