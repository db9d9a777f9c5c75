"""Conditions on the columns `end_user` and `tags`."""

from typing import Any

from sqlalchemy import ColumnElement

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
