"""Decides whether this release can use the schema of a database."""

from collections.abc import Collection

from app.errors import Unavailable


class SchemaOutdated(Unavailable):
    """The database schema is older than this version requires; run `runtally migrate`."""

    code = "schema_outdated"


class SchemaUnknown(Unavailable):
    """A newer release has migrated the database, and this one cannot use its schema; run the newer one."""

    code = "schema_unknown"


def newer_revision(current: str | None, *, known: Collection[str], required: str | None) -> str:
    """The revision of a newer schema that this release can use.

    `current` is that of the database, and not the newest of this release, which has migrations to all of
    `known`. `required` is recorded in the database: a release must know it to use the schema (decision 0061).
    Raises `SchemaOutdated` or `SchemaUnknown`.
    """
    if current is None or current in known:
        raise SchemaOutdated
    if required is None or required not in known:
        raise SchemaUnknown
    return current
