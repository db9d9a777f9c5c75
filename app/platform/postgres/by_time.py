"""The kind of index of a time by which rows are in order on disk."""

from collections.abc import Mapping
from typing import Any

BY_TIME: Mapping[str, Any] = {"postgresql_using": "brin", "postgresql_with": {"autosummarize": "on"}}
"""The least and the latest time of every 128 pages: a few bytes for thousands of rows.

Without `autosummarize` pages since the last vacuum, up to a fifth of the table, are read by each search.
"""
