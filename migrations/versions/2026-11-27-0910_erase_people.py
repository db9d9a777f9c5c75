"""erase people: chains name end users by salted hashes, receipts may lose the name, jobs erase the rest."""

import sqlalchemy as sa
from alembic import op

revision: str = "e19a7d5c30b2"
down_revision: str | None = "e4b7a1c95d20"
compatibility: str = "expand"

# Binds a name to its hash as long as the salt is there; without it the hash names no one. No name that a
# request may have begins with ~.
_HASHED = """
CREATE FUNCTION hashed_end_user(account uuid, person text, salt uuid) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN starts_with(person, '~') THEN person
           ELSE '~' || encode(sha256(convert_to(salt || ' ' || account || ' ' || person, 'UTF8')), 'hex') END
$$
"""
_HASH = """
CREATE FUNCTION end_user_hash(account uuid, person text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    known uuid;
BEGIN
    IF starts_with(person, '~') THEN
        RETURN person;
    END IF;
    SELECT salt INTO known FROM end_user_salts WHERE account_id = account AND end_user = person;
    IF NOT FOUND THEN
        INSERT INTO end_user_salts (account_id, end_user) VALUES (account, person) ON CONFLICT DO NOTHING;
        SELECT salt INTO known FROM end_user_salts WHERE account_id = account AND end_user = person;
    END IF;
    RETURN hashed_end_user(account, person, known);
END
$$
"""

# As before, except for the name of the end user.
_APPEND = """
CREATE OR REPLACE FUNCTION chain_links_follow_the_ledger() RETURNS trigger
LANGUAGE plpgsql SET TimeZone = 'UTC' AS $$
DECLARE
    item record;
    charged charge_receipts;
    body text;
    account uuid;
    place bigint;
    head bytea;
    accounts uuid[]; places bigint[]; entries bigint[]; contents text[]; hashes bytea[];
BEGIN
    FOR item IN
        SELECT entry.account_id, entry.id, row_to_json(entry)::text AS content, receipt
          FROM added AS entry LEFT JOIN charge_receipts AS receipt ON receipt.id = entry.receipt_id
         ORDER BY entry.account_id, entry.id
    LOOP
        IF account IS DISTINCT FROM item.account_id THEN
            account := item.account_id;
            SELECT position, hash INTO place, head FROM chain_links
             WHERE account_id = account ORDER BY position DESC LIMIT 1;
            IF NOT FOUND THEN
                place := 0;
                head := sha256(convert_to(account::text, 'UTF8'));
            END IF;
        END IF;
        charged := item.receipt;
        IF charged.end_user IS NOT NULL THEN
            charged.end_user := end_user_hash(account, charged.end_user);
        END IF;
        body := '{"entry":' || item.content || ',"receipt":'
            || CASE WHEN charged.id IS NULL THEN 'null' ELSE row_to_json(charged)::text END || '}';
        place := place + 1;
        head := sha256(head || convert_to(body, 'UTF8'));
        accounts := array_append(accounts, account);
        places := array_append(places, place);
        entries := array_append(entries, item.id);
        contents := array_append(contents, body);
        hashes := array_append(hashes, head);
    END LOOP;
    INSERT INTO chain_links (account_id, position, entry_id, content, hash)
    SELECT * FROM unnest(accounts, places, entries, contents, hashes);
    RETURN NULL;
END
$$
"""

_ONLY_ERASED = """
CREATE FUNCTION only_end_users_are_erased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.end_user IS NULL OR to_jsonb(NEW) - 'end_user' IS DISTINCT FROM to_jsonb(OLD) - 'end_user'
       OR NEW.end_user IS DISTINCT FROM end_user_hash(OLD.account_id, OLD.end_user) THEN
        RAISE EXCEPTION 'charge_receipts: a receipt is never changed or deleted (%)', TG_OP
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$
"""


def _receipts_may_lose_names(table: str) -> tuple[str, ...]:
    return (
        f"DROP TRIGGER {table}_are_final ON {table}",
        f"""
        CREATE TRIGGER {table}_are_final BEFORE DELETE OR TRUNCATE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION charge_receipts_are_final()
        """,
        f"""
        CREATE TRIGGER {table}_keep_their_values BEFORE UPDATE ON {table}
        FOR EACH ROW EXECUTE FUNCTION only_end_users_are_erased()
        """,
    )


def upgrade() -> None:
    """Apply while older servers may still run. Links that exist keep the names of end users."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "end_user_salts",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("end_user", sa.Text(), nullable=False),
        sa.Column("salt", sa.Uuid(), nullable=False, server_default=sa.text("gen_random_uuid()")),
        sa.PrimaryKeyConstraint("account_id", "end_user", name=op.f("pk_end_user_salts")),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_end_user_salts_account_id_accounts")
        ),
    )
    op.create_table(
        "erasures",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("end_user", sa.Text(), comment="Null once it is erased"),
        sa.Column("runs", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("conversations", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("receipts", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column(
            "changed_by",
            sa.BigInteger(),
            nullable=False,
            server_default="0",
            comment="The last transaction that has erased a run",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint("(ended_at IS NULL) = (end_user IS NOT NULL)", name=op.f("ck_erasures_ended")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erasures")),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_erasures_account_id_accounts")
        ),
    )
    op.create_index("uq_erasures_end_user", "erasures", ["account_id", "end_user"], unique=True)
    op.create_index("ix_sessions_updated_at", "sessions", ["updated_at"])
    for statement in (_HASHED, _HASH, _APPEND, _ONLY_ERASED):
        op.execute(statement)
    for table in ("charge_receipts", "fenced_receipts"):
        for statement in _receipts_may_lose_names(table):
            op.execute(statement)
