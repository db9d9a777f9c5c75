"""The chains, which a trigger of the ledger keeps (see the migrations), and their roots."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text, Uuid
from sqlalchemy import UniqueConstraint as Unique

from app.platform.db import UtcDateTime, metadata

chain_links = Table(
    "chain_links",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("position", BigInteger, primary_key=True),
    Column("entry_id", BigInteger, nullable=False),
    Column("content", Text, nullable=False, comment="The entry and its receipt, as JSON"),
    Column("hash", LargeBinary, nullable=False, comment="Of the hash before it and the content"),
    Unique("entry_id", name="uq_chain_links_entry_id"),
)

chain_roots = Table(
    "chain_roots",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("statement", Text, nullable=False, comment="The JSON that is signed"),
    Column("signature", LargeBinary, nullable=False, comment="Ed25519"),
    Column("made_at", UtcDateTime, nullable=False),
)

chain_leaves = Table(
    "chain_leaves",
    metadata,
    Column("root_number", BigInteger, ForeignKey("chain_roots.number"), primary_key=True),
    Column("account_id", Uuid, nullable=False),
    Column("leaf_index", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False, comment="Of the newest link it covers"),
    Column("hash", LargeBinary, nullable=False, comment="That of this link"),
)

Index("ix_chain_leaves_newest", chain_leaves.c.account_id, chain_leaves.c.root_number)
