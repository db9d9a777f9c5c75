"""chain the ledger and its receipts by hash; signed roots of all chains."""

import sqlalchemy as sa
from alembic import op

revision: str = "91d7c2e64fb0"
down_revision: str | None = "c41b7f02a9d5"

_CONTENT = """
    '{"entry":' || row_to_json(entry)::text || ',"receipt":'
        || CASE WHEN receipt.id IS NULL THEN 'null' ELSE row_to_json(receipt)::text END || '}'
"""
"""Whole rows, so that no column can be left out, also none that is added later."""

_FIRST = "sha256(convert_to(account::text, 'UTF8'))"
_NEXT = "sha256(head || convert_to(item.content, 'UTF8'))"

# In the transaction of the entries. Positions follow the order in which transactions lock the account: the
# trigger of its sums, which fires before (in the order of names), locks its row.
_APPEND = f"""
CREATE FUNCTION chain_links_follow_the_ledger() RETURNS trigger LANGUAGE plpgsql SET TimeZone = 'UTC' AS $$
DECLARE
    item record;
    account uuid;
    place bigint;
    head bytea;
    accounts uuid[]; places bigint[]; entries bigint[]; contents text[]; hashes bytea[];
BEGIN
    FOR item IN
        SELECT entry.account_id, entry.id, {_CONTENT} AS content
          FROM added AS entry LEFT JOIN charge_receipts AS receipt ON receipt.id = entry.receipt_id
         ORDER BY entry.account_id, entry.id
    LOOP
        IF account IS DISTINCT FROM item.account_id THEN
            account := item.account_id;
            SELECT position, hash INTO place, head FROM chain_links
             WHERE account_id = account ORDER BY position DESC LIMIT 1;
            IF NOT FOUND THEN
                place := 0;
                head := {_FIRST};
            END IF;
        END IF;
        place := place + 1;
        head := {_NEXT};
        accounts := array_append(accounts, account);
        places := array_append(places, place);
        entries := array_append(entries, item.id);
        contents := array_append(contents, item.content);
        hashes := array_append(hashes, head);
    END LOOP;
    INSERT INTO chain_links (account_id, position, entry_id, content, hash)
    SELECT * FROM unnest(accounts, places, entries, contents, hashes);
    RETURN NULL;
END
$$
"""  # noqa: S608 - constants
_APPEND_TRIGGER = """
CREATE TRIGGER credit_ledger_is_chained
AFTER INSERT ON credit_ledger REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION chain_links_follow_the_ledger()
"""

# Links the entries of an account after one of them; returns the last one's id, null if there are no more.
_APPEND_OLD = f"""
CREATE FUNCTION chain_links_append_old(account uuid, after bigint, most int) RETURNS bigint
LANGUAGE plpgsql SET TimeZone = 'UTC' AS $$
DECLARE
    item record;
    place bigint;
    head bytea;
    last bigint;
BEGIN
    SELECT position, hash INTO place, head FROM chain_links
     WHERE account_id = account ORDER BY position DESC LIMIT 1;
    IF NOT FOUND THEN
        place := 0;
        head := {_FIRST};
    END IF;
    FOR item IN
        SELECT entry.id, {_CONTENT} AS content
          FROM (SELECT * FROM credit_ledger WHERE account_id = account AND id > after ORDER BY id LIMIT most)
               AS entry
          LEFT JOIN charge_receipts AS receipt ON receipt.id = entry.receipt_id
         ORDER BY entry.id
    LOOP
        place := place + 1;
        head := {_NEXT};
        last := item.id;
        INSERT INTO chain_links (account_id, position, entry_id, content, hash)
        VALUES (account, place, item.id, item.content, head);
    END LOOP;
    RETURN last;
END
$$
"""  # noqa: S608 - constants

_FINAL = """
CREATE FUNCTION chain_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%: it is never changed or deleted (%)', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'integrity_constraint_violation';
END
$$
"""
_FINAL_TRIGGER = """
CREATE TRIGGER {table}_is_final
BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION chain_is_final()
"""
# Depth 1 is a client's own statement, depth 2 the ledger's trigger.
_ONLY_THE_LEDGER = """
CREATE FUNCTION chain_links_only_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_trigger_depth() < 2 THEN
        RAISE EXCEPTION 'chain_links: it follows credit_ledger and nothing else'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$$
"""
_ONLY_THE_LEDGER_TRIGGER = """
CREATE TRIGGER chain_links_only_follow
BEFORE INSERT ON chain_links FOR EACH STATEMENT EXECUTE FUNCTION chain_links_only_follow()
"""
_SLICE = 20_000
"""Entries that are linked in one statement, which may take 30 seconds."""


def upgrade() -> None:
    """Apply while older servers may still run: their entries are linked, too.

    Charges wait until those that exist are linked: about a minute for a million.
    """
    op.execute("SET LOCAL lock_timeout = '5s'")
    _create_tables()
    op.execute(_APPEND)
    # Its lock keeps new entries away until the old ones are linked.
    op.execute(_APPEND_TRIGGER)
    _link_old_entries()
    for statement in (_FINAL, _ONLY_THE_LEDGER, _ONLY_THE_LEDGER_TRIGGER):
        op.execute(statement)
    for table in ("chain_links", "chain_roots", "chain_leaves"):
        op.execute(_FINAL_TRIGGER.format(table=table))


def _create_tables() -> None:
    op.create_table(
        "chain_links",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("entry_id", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False, comment="The entry and its receipt, as JSON"),
        sa.Column("hash", sa.LargeBinary(), nullable=False, comment="Of the hash before it and the content"),
        sa.PrimaryKeyConstraint("account_id", "position", name=op.f("pk_chain_links")),
        sa.UniqueConstraint("entry_id", name="uq_chain_links_entry_id"),
    )
    op.create_table(
        "chain_roots",
        sa.Column("number", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("statement", sa.Text(), nullable=False, comment="The JSON that is signed"),
        sa.Column("signature", sa.LargeBinary(), nullable=False, comment="Ed25519"),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_chain_roots")),
    )
    op.create_table(
        "chain_leaves",
        sa.Column("root_number", sa.BigInteger(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("leaf_index", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False, comment="Of the newest link it covers"),
        sa.Column("hash", sa.LargeBinary(), nullable=False, comment="That of this link"),
        sa.ForeignKeyConstraint(
            ["root_number"], ["chain_roots.number"], name=op.f("fk_chain_leaves_root_number")
        ),
        sa.PrimaryKeyConstraint("root_number", "leaf_index", name=op.f("pk_chain_leaves")),
    )
    op.create_index("ix_chain_leaves_newest", "chain_leaves", ["account_id", "root_number"])


def _link_old_entries() -> None:
    op.execute(_APPEND_OLD)
    connection = op.get_bind()
    accounts = connection.execute(sa.text("SELECT DISTINCT account_id FROM credit_ledger")).scalars().all()
    append = sa.text("SELECT chain_links_append_old(:account, :after, :most)")
    for account in accounts:
        after = 0
        while after is not None:
            given = {"account": account, "after": after, "most": _SLICE}
            after = connection.execute(append, given).scalar_one()
    op.execute("DROP FUNCTION chain_links_append_old(uuid, bigint, int)")
