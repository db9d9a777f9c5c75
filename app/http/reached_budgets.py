"""The header that names soft budgets that are used up, on the response that starts a run."""

from typing import Final

from starlette.responses import Response

from app.runs.records import RunRecord

BUDGET_REACHED: Final = "Runtally-Budget-Reached"


def name_reached(response: Response, run: RunRecord) -> None:
    """Name the soft budgets that were used up when this request started the run."""
    if run.reached:
        response.headers[BUDGET_REACHED] = ", ".join(budget.id for budget in run.reached)
