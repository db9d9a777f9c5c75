"""store links uncompressed: compressing them took a tenth of the time of writing a receipt."""

from alembic import op

revision: str = "3f5a0b9d71c4"
down_revision: str | None = "91d7c2e64fb0"

_WHOLE_ROW = 8160
"""Bytes; nearly always more than a link has. The largest that PostgreSQL accepts."""


def upgrade() -> None:
    """Apply while older servers may still run. Links that exist stay compressed."""
    op.execute(f"ALTER TABLE chain_links SET (toast_tuple_target = {_WHOLE_ROW})")
