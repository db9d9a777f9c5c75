"""docs/api/authentication.md lists each operation with its scopes, and each action of the audit log."""

import ast
import re

from app.auth.roles import ROLES
from app.http.admission.checks import CheckedRoute
from app.http.routers import ROUTERS
from app.requests.principal import SCOPES, Scope
from tests.architecture.tree import ROOT, sources, walked

Operation = tuple[str, str]

_PAGE = ROOT / "docs" / "api" / "authentication.md"
_ROW = re.compile(r"^\| ((?:`[a-z:]+` ?)+)\| ((?:`[A-Z]+ /[^`]+`(?:, )?)+) \|$", re.MULTILINE)


def documented() -> dict[Operation, tuple[Scope, ...]]:
    """Each operation and the scopes it needs, as the document says."""
    found: dict[Operation, tuple[Scope, ...]] = {}
    for scopes, operations in _ROW.findall(_PAGE.read_text("utf-8")):
        needed = tuple(scope for scope in SCOPES if f"`{scope}`" in scopes)
        for method, path in re.findall(r"`([A-Z]+) ([^`]+)`", operations):
            assert (method, path) not in found, path
            found[method, path] = needed
    return found


def test_the_documented_scopes_are_those_of_every_operation() -> None:
    there_are = {
        (method, route.path.replace(":path}", "}")): tuple(s for s in SCOPES if s in route.scopes)
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, CheckedRoute) and route.scopes
        for method in route.methods or ()
    }

    assert there_are == documented()


def test_the_documented_roles_are_those_that_persons_have() -> None:
    guide = (ROOT / "docs" / "SIGN_IN.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ((?:`[a-z:]+` ?)+)\| ", guide, re.MULTILINE)

    there_are = {role: set(scopes) for role, scopes in ROLES.items()}
    assert {role: set(re.findall("`([^`]+)`", scopes)) for role, scopes in rows} == there_are


def test_the_documented_actions_are_those_of_the_audit_log() -> None:
    calls = (node for path in sources("app") for node in walked(path) if isinstance(node, ast.Call))
    actions = {
        call.args[1].value
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id == "Change"
        and isinstance(call.args[1], ast.Constant)
    }
    made_of_parts = {"account.suspended", "account.resumed", "credit.grant", "credit.adjustment"}

    table = _PAGE.read_text("utf-8").partition("| of | `action` |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z_]+\.[a-z_]+)`", table)) == actions | made_of_parts
