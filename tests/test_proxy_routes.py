"""Which requests of real agents are turns of their conversation, and which stand beside it."""

from __future__ import annotations

import pytest

from packlight.proxy.routes import endpoint_of, side_request

TOOL = {"type": "function", "name": "exec", "parameters": {"type": "object"}}
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
TURN = [USER, {"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": "1"}]
IN_LIST = {"type": "additional_tools", "role": "developer", "tools": [TOOL]}


def side(items, **more):
    endpoint = endpoint_of("POST", "/v1/responses")
    return side_request(endpoint, {"model": "m", "input": items, **more})


@pytest.mark.parametrize("request_", [{"items": TURN, "tools": [TOOL]}, {"items": [IN_LIST, *TURN]}])
def test_turn_of_an_agent_has_its_tools_in_the_request_or_in_the_list(request_):
    assert side(**request_) is None


@pytest.mark.parametrize(
    ("items", "why"),
    [
        (TURN, "no tools"),
        ([IN_LIST, USER], "a single exchange"),
        ([IN_LIST, *TURN, {"type": "compaction_trigger"}], "the agent's own compaction"),
    ],
)
def test_what_stands_beside_the_conversation(items, why):
    assert side(items) == why
