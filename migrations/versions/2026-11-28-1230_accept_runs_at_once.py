"""accept runs at once: also those of conversations, and of prepaid accounts.

Its functions `usable_key` and `reserve_at_once` stand in the migration that replaces them.
"""

from alembic import op

revision: str = "e2b7c40d915a"
down_revision: str | None = "d8a3f16b40e7"
compatibility: str = "expand"

# What a turn begins with that starts when it is accepted: no run before it has still to end.
_BEGINNING_OF_TURN = """
CREATE FUNCTION beginning_of_turn(account uuid, conversation text, session uuid, at_turn int)
RETURNS TABLE (has_called bool, lines bigint, bytes bigint, last_position bigint) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT
        coalesce((SELECT coalesce((meters ->> 'sdk')::int, 0) + coalesce((meters ->> 'gateway')::int, 0) > 0
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
    """Apply while older servers may still run: they use `unlimited_admission`, or several statements."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(_BEGINNING_OF_TURN)
