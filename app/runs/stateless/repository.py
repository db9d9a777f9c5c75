"""SQL that finds the run which gave an answer, by what its client knows of it."""

from sqlalchemy import exists, select

from app.ids import AccountId
from app.platform.db import Reader, json_text
from app.runs.records import RunRecord
from app.runs.stateless.records import GivenAnswer
from app.runs.tables import runs

_MOST_ANSWERS = 50
"""How many answers to one message are compared: the latest ones."""


async def given_answer(reader: Reader, run: RunRecord) -> GivenAnswer:
    """The answer of a run that the client names."""
    is_followed = exists().where(
        runs.c.account_id == run.key.account_id, runs.c.state_key == run.state_key, runs.c.turn > run.turn
    )
    is_last = (await reader.execute(select(~is_followed))).scalar_one()
    return GivenAnswer(run.key.run_id, run.state_key or "", "", is_last)


async def given_answers(
    reader: Reader, account_id: AccountId, state_keys: tuple[str, str], message_id: str
) -> list[GivenAnswer]:
    """The answers to this message in the conversations with keys between these two, newest first."""
    first, last = state_keys
    later = runs.alias()
    is_followed = exists().where(
        later.c.account_id == runs.c.account_id,
        later.c.state_key == runs.c.state_key,
        later.c.turn > runs.c.turn,
    )
    text = json_text(runs.c.final, "content")
    statement = (
        select(runs.c.run_id, runs.c.state_key, text.label("text"), (~is_followed).label("is_last"))
        .where(
            runs.c.account_id == account_id,
            runs.c.state_key.between(first, last),
            runs.c.message_id == message_id,
            runs.c.status == "succeeded",
            runs.c.final.is_not(None),
        )
        .order_by(runs.c.created_at.desc())
        .limit(_MOST_ANSWERS)
    )
    return [GivenAnswer(**row._asdict()) for row in await reader.execute(statement)]
