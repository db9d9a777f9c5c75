"""Conditions on the columns `end_user` and `tags`, and the indices for them."""

from typing import Any

from sqlalchemy import ColumnElement, Index, Table, text

from app.requests.attribution import LabelFilter


def labels_match(columns: Any, chosen: LabelFilter) -> list[ColumnElement[bool]]:
    """That the labels of a row are those chosen, so that the indices of both columns serve."""
    conditions: list[ColumnElement[bool]] = []
    if chosen.end_user is not None:
        conditions.append(columns.end_user == chosen.end_user)
    if chosen.tag is not None:
        name, value = chosen.tag
        conditions.append(columns.tags.contains({name: value}))
    return conditions


def index_labels(rows: Table, *, time: str, id_: str) -> None:
    """Index the labels of a table whose pages go back by these two columns."""
    Index(
        f"ix_{rows.name}_end_user",
        *(rows.c.account_id, rows.c.end_user, rows.c[time].desc(), rows.c[id_].desc()),
        postgresql_where=text("end_user IS NOT NULL"),
    )
    Index(
        f"ix_{rows.name}_tags",
        rows.c.tags,
        postgresql_using="gin",
        postgresql_ops={"tags": "jsonb_path_ops"},
        postgresql_where=text("tags IS NOT NULL"),
    )
