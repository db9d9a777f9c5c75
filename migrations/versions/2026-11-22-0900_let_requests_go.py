"""make requests of runs deletable, and keep their questions."""

import sqlalchemy as sa
from alembic import op

revision: str = "c41d7f0e92ab"
down_revision: str | None = "3d9a70b4e1c8"

_QUESTIONS = """
    UPDATE runs SET question = left(
        CASE json_typeof(request -> 'messages' -> -1 -> 'content')
            WHEN 'string' THEN request -> 'messages' -> -1 ->> 'content'
            ELSE (
                SELECT string_agg(part ->> 'text', E'\\n\\n')
                FROM json_array_elements(request -> 'messages' -> -1 -> 'content') AS part
                WHERE part ->> 'type' = 'text'
            )
        END,
        16384
    )
    WHERE state_key IS NOT NULL AND status <> 'succeeded'
"""


def upgrade() -> None:
    """Apply while older servers may still run: never wait long for a lock."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.alter_column("runs", "request", nullable=True, comment="Null once it is deleted")
    op.add_column("runs", sa.Column("question", sa.Text(), comment="How the text of its last message begins"))
    # Shown in conversations for runs that are not in the transcript.
    op.execute(_QUESTIONS)
    op.execute("UPDATE runs SET request = NULL WHERE ended_at IS NOT NULL AND started_at IS NULL")
