from app.tools.policy import ToolPolicy


def test_nothing_is_permitted_by_default() -> None:
    assert not ToolPolicy().permits("core__calculate")


def test_only_what_is_named_is_permitted() -> None:
    policy = ToolPolicy(frozenset({"core__calculate"}))
    assert policy.permits("core__calculate")
    assert not policy.permits("core__calculat")
