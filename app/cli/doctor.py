"""`runtally doctor`: checks everything a server needs."""

import json
import os

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.bootstrap.roles import Role
from app.doctor.examination import examine
from app.doctor.report import Check, Report
from app.doctor.variables import check_variables
from app.platform.settings import Settings, SettingsError, variables_of_file

_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


async def diagnose(role: Role = Role.SERVE, *, with_probe: bool) -> Report:
    """Check the installation that this directory and environment configure for a process of this role."""
    try:
        settings = Settings.load()
    except SettingsError as error:
        # Without settings nothing else can be checked. The errors contain no values.
        errors = str(error).splitlines()
        problems = [line.strip() for line in errors[1:]] or errors
        found = [Check("settings", "error", problem) for problem in problems]
        return Report([*found, *check_variables(os.environ, (), None)])
    file_variables = variables_of_file()
    return await examine(
        settings, environ=os.environ, file_variables=file_variables, with_probe=with_probe, role=role
    )


def show(report: Report, console: Console, *, as_json: bool) -> None:
    if as_json:
        console.out(json.dumps(report.as_json(), indent=2))
        return
    checks = Table.grid(padding=(0, 1))
    for check in report.checks:
        status, name = Text(check.status, _STYLES[check.status]), Text(check.name, "bold")
        checks.add_row(status, name, Text(check.detail, overflow="fold"))
    console.print(checks)
    if not report.ok:
        console.print("The installation cannot be used as it is.", style="red")
