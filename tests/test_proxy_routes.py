"""Which requests of real agents are turns of their conversation, which stand beside it, and where they go."""

from __future__ import annotations

import pytest

from packlight.errors import PacklightError
from packlight.proxy import Settings
from packlight.proxy.routes import endpoint_of, side_request, upstream_url

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


@pytest.mark.parametrize(
    ("path", "headers", "goes_to"),
    [
        ("/v1/messages?beta=true", {"anthropic-version": "x"}, "https://api.anthropic.com/v1/messages?beta=true"),
        ("/v1/messages", {"authorization": "Bearer t"}, "https://api.anthropic.com/v1/messages"),
        ("/v1/models", {"x-api-key": "k"}, "https://api.anthropic.com/v1/models"),
        ("/v1/models", {"authorization": "Bearer t"}, "https://api.openai.com/v1/models"),
        ("/v1/responses", {"authorization": "Bearer t"}, "https://api.openai.com/v1/responses"),
        ("/v1/responses", {"chatgpt-account-id": "a"}, "https://chatgpt.com/backend-api/codex/responses"),
        ("/", {}, "https://api.anthropic.com/"),
    ],
)
def test_provider_is_told_by_path_and_headers(path, headers, goes_to):
    assert upstream_url(path, headers, Settings(journal=None)) == goes_to


@pytest.mark.parametrize(
    ("upstream", "path", "goes_to"),
    [
        ("http://127.0.0.1:8000", "/v1/chat/completions", "http://127.0.0.1:8000/v1/chat/completions"),
        ("http://127.0.0.1:8000/v1/", "/v1/chat/completions", "http://127.0.0.1:8000/v1/chat/completions"),
        ("https://router.example/api", "/v1/models", "https://router.example/api/v1/models"),
    ],
)
def test_one_upstream_takes_all_paths_and_credentials(upstream, path, goes_to):
    headers = {"chatgpt-account-id": "a", "x-api-key": "k"}
    assert upstream_url(path, headers, Settings(journal=None, upstream=upstream)) == goes_to


@pytest.mark.parametrize("url", ["ftp://x.example", "x.example/v1", "http://", "http://x.example:99999", "http://[x"])
@pytest.mark.parametrize("name", ["upstream", "anthropic", "openai"])
def test_what_is_no_url_is_told_before_anything_is_sent(name, url):
    with pytest.raises(PacklightError, match=r"is no http\(s\) URL"):
        Settings(journal=None, **{name: url})


@pytest.mark.parametrize("url", ["http://127.0.0.1:8787", "http://localhost:8787/v1", "http://[::1]:8787/"])
def test_a_proxy_does_not_send_on_to_itself(url):
    with pytest.raises(PacklightError, match="where this proxy listens"):
        Settings(journal=None, upstream=url)
    assert Settings(journal=None, upstream=url, port=8788).upstream == url
