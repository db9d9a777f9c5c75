"""Checks of tools, graphs, models and prices, loaded as in the server."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from app.billing.prices.library import LIBRARY_VERSION
from app.billing.prices.price_file import PriceFileError
from app.billing.prices.price_list import PriceList
from app.bootstrap.catalogs import load_graphs, model_registry, project_directory
from app.bootstrap.prices import price_list
from app.doctor.report import Check
from app.errors import AppError, OperatorError
from app.graphs.catalog import GraphCatalog
from app.graphs.file import GraphDefinitionError
from app.ids import AccountId, ApiKeyId, RunId, RunKey
from app.models.deprecations import announced_ends
from app.models.registry import DEFAULT, ModelRegistry
from app.platform.settings import Settings
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest
from app.runs.planner import RunPlanner
from app.tools.catalog import ToolCatalog, ToolCatalogError
from app.tools.extensions.loading import ExtensionInvalid, Extensions
from app.tools.skills.library import NO_SKILLS, SkillInvalid, SkillLibrary

_NO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Catalogs:
    """What could be loaded, and the checks."""

    checks: list[Check]
    graphs: GraphCatalog
    models: ModelRegistry | None
    prices: PriceList


def check_catalogs(settings: Settings) -> Catalogs:
    """Load everything; an error in one part does not hide those in others."""
    tools, tool_checks = _tools(settings)
    prices, price_checks = _prices(settings)
    models, model_checks = _models(settings, prices)
    errors: list[GraphDefinitionError] = []
    skills, skill_checks = _skills(settings)
    graphs = load_graphs(settings, tools, skills, problems=errors)
    checks_of_graphs = [Check("graphs", "error", str(problem)) for problem in errors]
    if models is not None:
        timeout = timedelta(seconds=settings.run_timeout_s)
        planner = RunPlanner(graphs, models, tools, prices, timeout, skills=skills)
        checks_of_graphs += _unrunnable(planner)
        model_checks += _ending(models, graphs)
    if not checks_of_graphs:
        checks_of_graphs = [Check("graphs", "ok", ", ".join(graph.id for graph in graphs.all()))]
    return Catalogs(
        [*tool_checks, *_extensions(), *skill_checks, *checks_of_graphs, *model_checks, *price_checks],
        graphs,
        models,
        prices,
    )


def _tools(settings: Settings) -> tuple[ToolCatalog, list[Check]]:
    usable, errors = [], []
    for module in settings.tools:
        try:
            ToolCatalog.load([module], project_directory())
        except ToolCatalogError as error:
            errors.append(Check("tools", "error", str(error)))
        else:
            usable.append(module)
    try:
        tools = ToolCatalog.load(usable, project_directory())
    except ToolCatalogError as error:
        return ToolCatalog.load(()), [*errors, Check("tools", "error", str(error))]
    return tools, errors or [Check("tools", "ok", ", ".join(tool.id for tool in tools.all()))]


def _extensions() -> list[Check]:
    try:
        names = Extensions.load().names
    except ExtensionInvalid as error:
        return [Check("extensions", "error", str(error))]
    return [Check("extensions", "ok", ", ".join(names))] if names else []


def _skills(settings: Settings) -> tuple[SkillLibrary, list[Check]]:
    try:
        return SkillLibrary.load(settings.skills_dir), []
    except SkillInvalid as error:
        return NO_SKILLS, [Check("graphs", "error", str(error))]


def _prices(settings: Settings) -> tuple[PriceList, list[Check]]:
    try:
        prices = price_list(settings)
    except PriceFileError as error:
        return PriceList(markup=settings.markup), [Check("prices", "error", str(error))]
    own = "" if settings.prices_file is None else f"{settings.prices_file}, then "
    return prices, [Check("prices", "ok", f"{own}{LIBRARY_VERSION}; markup {settings.markup}")]


def _models(settings: Settings, prices: PriceList) -> tuple[ModelRegistry | None, list[Check]]:
    try:
        models = model_registry(settings, prices)
    except OperatorError as error:
        return None, [Check("models", "error", str(error))]
    file = settings.models_file or "the shipped registry"
    return models, [Check("models", "ok", f"{file}; {DEFAULT} is {models.resolve(None, None)}")]


def _ending(models: ModelRegistry, graphs: GraphCatalog) -> Iterator[Check]:
    for message in announced_ends(models, graphs.definitions(), today=datetime.now(UTC).date()):
        yield Check("models", "warning", message)


def _unrunnable(planner: RunPlanner) -> Iterator[Check]:
    """Plan a run of every graph: an error would stop a client's run, too."""
    no_run = RunKey(AccountId(_NO_ID), RunId("doctor"))
    for graph in planner.graphs.all():
        request = GraphRunRequest(graphId=graph.id, messages=[Message(role="user", content="hello")])
        try:
            planner.plan(no_run, request, api_key_id=ApiKeyId(_NO_ID), request_id=None)
        except AppError as error:
            yield Check("graphs", "error", f"graph {graph.id}: {error.detail}")
