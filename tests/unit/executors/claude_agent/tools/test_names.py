from app.executors.claude_agent.tools.names import bridged_name, tool_id_of


def test_a_tool_has_one_name_for_the_model_and_its_id_for_everybody_else() -> None:
    assert bridged_name("core__calculate") == "mcp__runtally__core__calculate"
    assert tool_id_of("mcp__runtally__core__calculate") == "core__calculate"
    assert tool_id_of("Read") == "Read"
