import pytest

from tests.unit.gateway.calls import Billing


@pytest.fixture
def billing() -> Billing:
    """What a lane asks and tells, noted."""
    return Billing()
