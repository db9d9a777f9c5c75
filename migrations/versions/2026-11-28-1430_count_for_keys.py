"""let a key count for the budgets of the key that it replaces, or whose person has signed it in."""

import sqlalchemy as sa
from alembic import op

revision: str = "a77ac4e01f6d"
down_revision: str | None = "e2b7c40d915a"
compatibility: str = "expand"

# For which values of a budget's scope a run or receipt counts; that of an account is empty.
_VALUES = """
CREATE OR REPLACE FUNCTION budget_values(
    scope text, match text, api_key_id uuid, graph_id text, end_user text, tags jsonb
) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT value FROM (
        SELECT CASE scope WHEN 'account' THEN '' WHEN 'graph' THEN graph_id WHEN 'endUser' THEN end_user END
               AS value
        UNION ALL
        SELECT tag.key || '=' || tag.value FROM jsonb_each_text(tags) AS tag WHERE scope = 'tag'
        UNION ALL
        SELECT id::text FROM (
            WITH RECURSIVE earlier (id) AS (
                SELECT api_key_id UNION SELECT api_keys.counts_for FROM earlier JOIN api_keys USING (id)
            ) SELECT id FROM earlier) AS key WHERE scope = 'key'
    ) AS counted
     WHERE value IS NOT NULL AND (match IS NULL OR value = match)
$$
"""


def upgrade() -> None:
    """Apply while older servers may still run: the keys that they make count for themselves."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    other = "The key for whose budgets it counts as well"
    op.add_column("api_keys", sa.Column("counts_for", sa.Uuid, comment=other))
    op.execute(_VALUES)
