"""Logins of devices: requested, and what they have led to."""

from sqlalchemy import Boolean, Column, ForeignKey, LargeBinary, Table, Text, Uuid, text

from app.platform.db import UtcDateTime, metadata

device_logins = Table(
    "device_logins",
    metadata,
    Column("device_hash", LargeBinary, primary_key=True, comment="Of the device code"),
    Column("user_code", Text, nullable=False, unique=True),
    Column("client", Text, nullable=False, comment="What the device calls itself"),
    Column("address", Text, comment="From where the login was requested"),
    Column("created_at", UtcDateTime, nullable=False, server_default=text("now()")),
    Column("expires_at", UtcDateTime, nullable=False, index=True, comment="Of the codes, later of the login"),
    Column("polled_at", UtcDateTime),
    Column("is_denied", Boolean, nullable=False, server_default=text("false")),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id", ondelete="CASCADE"), index=True, comment="Its own"),
    Column("approved_by", Uuid, ForeignKey("api_keys.id", ondelete="CASCADE"), comment="Key of the person"),
    Column("refresh_seed", LargeBinary, nullable=False, comment="Each refresh token follows from the last"),
    Column("refresh_hash", LargeBinary, comment="Null: no token was issued yet"),
    Column("previous_hash", LargeBinary),
    Column("refreshed_at", UtcDateTime),
)
