"""Checks whether receipts can be compared with the provider's reports."""

from app.billing.reconciliation.provider.reports import (
    AdminKeyRefused,
    ProviderReports,
    ReportNotOffered,
    ReportsUnavailable,
)
from app.billing.reconciliation.service import ProviderKeyUnknown, find_own_keys
from app.bootstrap.reconciliation import open_reports, reconciliation_config
from app.doctor.report import Check
from app.platform.settings import Settings

_NAME = "reconciliation"
_TRIES = 2
_TIMEOUT_S = 10.0

_UNSET = "receipts are not compared with the provider's reports: ANTHROPIC_ADMIN_API_KEY is not set"
_SAME = (
    "ANTHROPIC_ADMIN_API_KEY and ANTHROPIC_API_KEY are the same key, but the key that calls models must not "
    "be able to read the organization's reports: create an admin key in the provider's console"
)
_REFUSED = (
    "the provider does not accept ANTHROPIC_ADMIN_API_KEY: create an admin key in the provider's console"
)
_NOT_OFFERED = (
    "{detail} ANTHROPIC_ADMIN_API_KEY needs an admin key of the organization, "
    "and ANTHROPIC_ADMIN_BASE_URL ({url}) the provider's Admin API"
)
_UNAVAILABLE = (
    "{detail} Check ANTHROPIC_ADMIN_BASE_URL ({url}) and whether this machine can reach it; "
    "the server tries again every ten minutes"
)
_KEY_UNKNOWN = (
    "the admin key is accepted, but which of the organization's keys is ANTHROPIC_API_KEY is not known: "
    "set RUNTALLY_PROVIDER_KEY_IDS, and use an admin key of the same organization"
)


async def check_reconciliation(settings: Settings) -> Check:
    """Whether there is an admin key of its own, the provider accepts it, and our own key is known."""
    admin_key = settings.anthropic_admin_api_key
    if admin_key is None:
        return Check(_NAME, "warning", _UNSET)
    if admin_key == settings.anthropic_api_key:
        return Check(_NAME, "error", _SAME)
    async with open_reports(settings, tries=_TRIES, timeout_s=_TIMEOUT_S) as reports:
        problem = await _problem(settings, reports)
    if problem is not None:
        return Check(_NAME, "error", problem)
    return Check(_NAME, "ok", f"{settings.anthropic_admin_base_url} accepts the admin key")


async def _problem(settings: Settings, reports: ProviderReports) -> str | None:
    url = settings.anthropic_admin_base_url
    try:
        await reports.check()
        await find_own_keys(reports, reconciliation_config(settings))
    except AdminKeyRefused:
        return _REFUSED
    except ReportNotOffered as error:
        return _NOT_OFFERED.format(detail=error.detail, url=url)
    except ReportsUnavailable as error:
        return _UNAVAILABLE.format(detail=error.detail, url=url)
    except ProviderKeyUnknown:
        return _KEY_UNKNOWN
    return None
