"""The salts of end users."""

from sqlalchemy import Column, ForeignKey, Table, Text, Uuid, text

from app.platform.db import metadata

end_user_salts = Table(
    "end_user_salts",
    metadata,
    Column("account_id", Uuid, ForeignKey("accounts.id"), primary_key=True),
    Column("end_user", Text, primary_key=True),
    Column("salt", Uuid, nullable=False, server_default=text("gen_random_uuid()")),
)
"""What ties an end user to the hash in the chain; deleted when the end user is erased."""
