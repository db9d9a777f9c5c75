"""turns after success: what a run asked that has not succeeded may be missing in the transcript."""

from alembic import op

revision: str = "e5a0c1d97b34"
down_revision: str | None = "d8b1f6407e29"
compatibility: str = "expand"

# In place of `beginning_of_turn`, which told whether the run before had called a model.
_TURN_BEGINS_WITH = """
CREATE FUNCTION turn_begins_with(account uuid, conversation text, session uuid, at_turn int)
RETURNS TABLE (follows_success bool, lines bigint, bytes bigint, last_position bigint) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT
        coalesce((SELECT status = 'succeeded'
                    FROM runs WHERE runs.account_id = account AND runs.state_key = conversation
                                AND runs.session_id = session AND runs.turn < at_turn
                   ORDER BY runs.turn DESC LIMIT 1), false),
        count(*), coalesce(sum(line.bytes), 0)::bigint, coalesce(max(line.position), 0)
        FROM session_entries AS line
       WHERE line.project_key = account::text AND line.session_id = session::text AND line.subpath = '';
END
$$
"""


def upgrade() -> None:
    """Apply while older servers may still run: they use the function before."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(_TURN_BEGINS_WITH)
