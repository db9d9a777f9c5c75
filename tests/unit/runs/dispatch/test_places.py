import pytest

from app.ids import AccountId, RunId, RunKey, new_uuid
from app.runs.dispatch.places import Places

RUN = RunKey(AccountId(new_uuid()), RunId("r1"))


@pytest.mark.parametrize(("used_by", "free"), [(None, 1), (RUN, 0)], ids=["in vain", "used"])
def test_a_claimed_place_is_given_back_unless_a_run_uses_it(used_by: RunKey | None, free: int) -> None:
    places = Places(total=1, may_have_backlog=False)

    with places.claim() as claim:
        assert (claim.has_place, places.free) == (True, 0)
        claim.used_by = used_by

    assert places.free == free
