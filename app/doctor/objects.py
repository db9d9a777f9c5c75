"""Checks the storage of large contents, by writing one."""

import hashlib
import os
from typing import Final
from uuid import UUID

from app.doctor.report import Check
from app.ids import AccountId
from app.platform.db import Database
from app.platform.objects.service import are_elsewhere
from app.platform.objects.storage import ContentLost, ContentsUnavailable, ObjectStorage
from app.platform.settings import Settings

_ROWS: Final = "the database refers to large contents outside"
_NO_ACCOUNT: Final = AccountId(UUID(int=0))


async def check_objects(settings: Settings, database: Database | None) -> list[Check]:
    """Write, read and delete a content, if there is a storage, and look for those that rows refer to.

    Raises `ObjectsNotUsable`.
    """
    if settings.objects is None:
        if database is not None and await are_elsewhere(database, None):
            return [Check("objects", "error", f"{_ROWS}; set RUNTALLY_OBJECTS to where they are")]
        return []
    storage = ObjectStorage(settings.objects, settings.objects_key, settings.network)
    content = os.urandom(32)
    sha256 = hashlib.sha256(content).hexdigest()
    try:
        await storage.put(_NO_ACCOUNT, sha256, content)
        await storage.get(_NO_ACCOUNT, sha256)
        await storage.delete(_NO_ACCOUNT, sha256)
    except (ContentsUnavailable, ContentLost) as error:
        reason = type(error.__cause__).__name__
        message = f"RUNTALLY_OBJECTS cannot be written, read and deleted: {reason}"
        return [Check("objects", "error", message)]
    if database is not None and await are_elsewhere(database, storage):
        detail = f"{_ROWS} that are not there; correct RUNTALLY_OBJECTS or RUNTALLY_OBJECTS_KEY"
        return [Check("objects", "error", detail)]
    encrypted = "" if settings.objects_key is None else ", encrypted with RUNTALLY_OBJECTS_KEY"
    return [Check("objects", "ok", f"large contents are at RUNTALLY_OBJECTS{encrypted}")]
