# ruff: noqa: E501  (messages stand as their providers wrote them)
"""`overflow.classify` on recorded bodies of many providers, and on the forms that SDKs give them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from packlight.overflow import Overflow, classify, finds_fault, says_nothing

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "overflow_errors.jsonl").read_text(encoding="utf-8").splitlines()
]
KINDS = {
    "overflow": {"input_tokens"},
    "max_tokens_sum": {"max_tokens"},
    "media_limit": {"media"},
    "request_bytes": {"request_bytes"},
    "tpm_cap": {"rate"},
    "not_overflow": {None},
    "ambiguous": {None},
    "silent": {None},  # nothing in the body tells: see test_silent_forms
}


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['id']}-{c['provider']}")
def test_recorded_bodies(case):
    found = classify(status=case["http_status"], body=case["body"])
    assert (found.kind if found else None) in KINDS[case["kind"]], found


class SdkError(Exception):
    """Shaped like `APIStatusError` of the official clients."""

    def __init__(self, message, status_code, body, response=None):
        super().__init__(message)
        self.message, self.status_code, self.body, self.response = message, status_code, body, response


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_as_exception(case):
    """The same verdict from an SDK exception, with the body decoded or only as text."""
    try:
        body = json.loads(case["body"])
    except ValueError:
        body = case["body"]
    for error in (
        SdkError(f"Error code: {case['http_status']} - {body}", case["http_status"], body),
        SdkError("Bad request", case["http_status"], None, SimpleNamespace(text=case["body"], status_code=None)),
    ):
        found = classify(error)
        assert (found.kind if found else None) in KINDS[case["kind"]], found


@pytest.mark.parametrize(
    "case, limit, used, room",
    [
        ("O01", 200_000, 200_251, None),
        ("O02", 200_000, 143_653, 64_000),
        ("O08", 4_097, 3_120, 1_000),
        ("O10", 4_097, 1_044, 3_072),
        ("O13", 272_000, 509_178, None),
        ("O18", 131_072, 248_198, None),
        ("O22", 131_072, 134_123, None),
        ("O23", 131_072, 136_973, None),
        ("O25", 40_000, 42_328, None),
        ("O27", 131_072, 133_980, 8_000),
        ("O31", 131_040, 131_393, None),
        ("O32", 262_144, 265_330, None),
        ("O33", 262_144, 516_368, None),
        ("O36", 8_192, 8_195, None),
        ("O37", 262_144, 262_145, 0),
        ("O38", 131_072, None, None),
        ("O40", 8_192, 14_429, None),
        ("O43", 2_048, 2_285, None),
        ("O47", 32_768, 111_490, None),
        ("O52", 288_000, None, None),
        ("O53", 983_616, None, None),
        ("O55", 262_144, 269_030, None),
        ("O63", 128_000, 391_491, None),
        ("O66", 8_000, None, None),
        ("O67", 8_192, 6_204, 2_047),
        ("O68", 256_000, 5_958_968, None),
        ("O69", 2_048, 3_503, None),
        ("O84", 6_000, 14_810, None),
    ],
)
def test_figures(case, limit, used, room):
    body = next(c["body"] for c in CASES if c["id"] == case)
    found = classify(status=400, body=body)
    assert (found.limit_tokens, found.used_tokens, found.max_tokens) == (limit, used, room)


def test_other_figures():
    by_id = {c["id"]: c["body"] for c in CASES}
    assert classify(body=by_id["O48"]).excess_tokens == 100_918
    assert classify(body=by_id["O65"]).limit_bytes == 5_000_000
    assert classify(body=by_id["O75"]).limit_bytes == 20_971_520
    assert classify(body=by_id["O05"]).limit_images == 100
    found = classify(body=by_id["O04"])
    assert found.limit_pixels == 2000
    assert found.path == "messages.88.content.1.image.source.base64.data"


@pytest.mark.parametrize(
    "message, kind, limit, used",
    [
        ("This model's maximum context length is 1,047,576 tokens. However, your messages resulted in 1,100,000 tokens.",
         "input_tokens", 1_047_576, 1_100_000),
        ("prompt is too long: 1_200_500 tokens > 1_000_000 maximum", "input_tokens", 1_000_000, 1_200_500),
        ("the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model",
         "input_tokens", 4_096, 5_000),
        ("max tokens of 8192 exceeded", "input_tokens", 8_192, None),
        ("Total tokens of image and text exceed max message tokens. Request id: 0217", "input_tokens", None, None),
        ("messages.0.content.0: text is too long: 1048577 > 1048576 characters", "input_tokens", None, None),
        ("string too long. Expected a string with maximum length 10485760, but got a string with length 12345678",
         "input_tokens", None, None),
        ("The input (140k tokens) is longer than the model's context length (128k tokens).",
         "input_tokens", 128_000, 140_000),
        ("request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
         "input_tokens", 8_192, 9_000),
        ("'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 8192 tokens "
         "and your request has 5000 input tokens (4096 > 8192 - 5000).", "max_tokens", 8_192, 5_000),
        ("Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of "
         "140000 tokens: 120000 tokens from the input messages and 20000 tokens for the completion.",
         "max_tokens", 131_072, 120_000),
        ("This endpoint's maximum context length is 200000 tokens. However, you requested about 216000 tokens (150000 of "
         "text input, 2000 of tool input, 64000 in the output). Please reduce the length of either one",
         "max_tokens", 200_000, 152_000),
        ("You passed 4000 input tokens and requested 512 output tokens. However, the model's context length is only 4096 "
         "tokens, resulting in a maximum input length of 3584 tokens.", "max_tokens", 4_096, 4_000),
        ("This model's maximum context length is 8192 tokens. However, you requested 8500 tokens (7000 in the messages, "
         "500 in the functions, and 1000 in the completion).", "max_tokens", 8_192, 7_500),
        ("The prompt is too long: 140000, model maximum context length: 131072", "input_tokens", 131_072, 140_000),
        ("too many tokens: total number of tokens in the request cannot exceed 4081 - received 5242. Try using a shorter "
         "prompt", "input_tokens", 4_081, 5_242),
        ("Unable to submit request because the input token count is 2000000 but model only supports up to 1048576. Reduce "
         "the input token count and try again.", "input_tokens", 1_048_576, 2_000_000),
        ("The input token count exceeds the maximum number of tokens allowed 1048576.", "input_tokens", None, None),
        ("Too many input tokens. Max input tokens: 8192, request input token count: 10044", "input_tokens", 8_192, 10_044),
        ("Input validation error: `inputs` must have less than 1024 tokens. Given: 2000", "input_tokens", 1_024, 2_000),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", "input_tokens", 4_096, 5_000),
        ("Cannot truncate prompt with n_keep (5000) >= n_ctx (4096)", "input_tokens", 4_096, 5_000),
        ("input length exceeds maximum context length", "input_tokens", None, None),
        ("prompt tokens too long", "input_tokens", None, None),
        ("Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got a string "
         "with length 1500000 instead.", "input_tokens", None, None),
        ("Request payload size exceeds the limit: 20971520 bytes.", "request_bytes", None, None),
        ("<html><head><title>413 Request Entity Too Large</title></head>", "request_bytes", None, None),
        ("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
         "media", None, None),
        ("At most 1 image(s) may be provided in one request.", "media", None, None),
        ("Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 45000.",
         "rate", 30_000, 45_000),
    ],
)  # fmt: skip
def test_same_kind_of_message(message, kind, limit, used):
    """Messages of the same make that are not in the recorded set."""
    found = classify(status=400, body={"error": {"message": message}})
    assert (found.kind, found.limit_tokens, found.used_tokens) == (kind, limit, used)


@pytest.mark.parametrize(
    "status, body",
    [
        (400, "messages: roles must alternate between user and assistant"),
        (400, "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_01"),
        (400, "Invalid `signature` in `thinking` block. The block is bound to a different conversation"),
        (400, "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5"),
        (400, "messages.1.content.0.tool_use.name: String should have at most 128 characters"),
        (400, "messages.1.content.0.tool_use_id too long: 70 > 64 characters"),
        (400, "`max_tokens` must be greater than `thinking.budget_tokens`."),
        (400, "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64"),
        (400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
        (400, "max_tokens must be less than or equal to 8192"),
        (429, "ThrottlingException: Too many tokens, please wait before trying again."),
        (429, "Extra usage is required for long context requests."),
        (401, "invalid x-api-key"),
        (404, "model: claude-nope-1"),
        (429, "This request would exceed the rate limit for your organization of 30,000 input tokens per minute."),
        (429, "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 25000, Requested 9000."),
        (429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}),
        (500, "Internal server error"),
        (502, "upstream connect error or disconnect/reset before headers"),
        (529, "Overloaded"),
        (None, "Connection error."),
        (200, {"choices": [{"finish_reason": "stop", "message": {"content": "the context window is large"}}]}),
        (400, ""),
        (400, None),
        (400, b"\xff\xfe"),
    ],
)
def test_no_false_alarm(status, body):
    assert classify(status=status, body=body) is None


def test_silent_forms():
    empty = {"choices": [{"finish_reason": "length", "message": {"content": ""}}], "usage": {"prompt_tokens": 8192}}
    assert classify(body=empty).silent
    cut = {"choices": [{"finish_reason": "length", "message": {"content": "so far"}}]}
    assert classify(body=cut) is None
    assert classify(body={"stop_reason": "model_context_window_exceeded", "content": []}).kind == "input_tokens"
    big = {"choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 210_000, "completion_tokens": 12}}
    assert classify(body=big) is None
    assert classify(body=big, window_tokens=200_000).used_tokens == 210_000


def test_error_event_in_stream():
    stream = 'event: error\ndata: {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 201 tokens > 200 maximum"}}\n\n'
    assert classify(status=200, body=stream) == Overflow(
        kind="input_tokens", message="prompt is too long: 201 tokens > 200 maximum", limit_tokens=200, used_tokens=201
    )


def test_cause_is_read():
    inner = SdkError("x", 400, {"error": {"code": "context_length_exceeded", "message": "no"}})
    outer = RuntimeError("model call failed")
    outer.__cause__ = inner
    assert classify(outer).kind == "input_tokens"


# --- what is no overflow, but may be one, or our fault ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "is_mute"),
    [
        (400, "", True),
        (500, "", True),
        (413, {}, True),
        (400, "Bad Request", True),
        (400, "400 Bad Request\n", True),
        (400, {"error": {"message": "", "type": "invalid_request_error", "code": 400}}, True),
        (400, {"error": "Bad Request", "statusCode": 400}, True),
        (200, {"type": "error", "error": {"message": ""}}, True),
        (None, {"type": "error", "error": {"message": ""}}, True),
        (None, {"type": "response.failed", "response": {"status": "failed", "error": {"code": None}}}, True),
        (400, {"error": {"message": "temperature: must be below 1", "type": "invalid_request_error"}}, False),
        (400, {"error": {"message": "", "type": "authentication_error"}}, False),
        (400, "请求失败", False),
        (500, {"error": {"type": "api_error", "message": "Internal server error"}}, False),
        (200, {"type": "error", "error": {"type": "overloaded_error", "message": ""}}, False),
        (401, "", False),
        (404, "", False),
        (429, "", False),
        (502, "", False),
        (503, "", False),
        (400, None, False),  # it could not be read
        (None, "", False),  # no answer at all
    ],
)
def test_error_that_says_nothing(status, body, is_mute):
    error = SdkError("Error code", status, body)
    assert says_nothing(error) is is_mute


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_recorded_errors_that_say_nothing(case):
    """Copilot's `invalid_request_body` (O64) is an overflow at times; the other is one by its status of 413 (O76)."""
    assert says_nothing(SdkError("", case["http_status"], case["body"])) is (case["id"] in ("O64", "O76"))


@pytest.mark.parametrize(
    ("status", "body", "is_fault"),
    [
        (400, None, True),
        (422, {}, True),
        (200, {"type": "error", "error": {"type": "invalid_request_error", "message": "messages.1: no"}}, True),
        (None, {"message": "no", "type": "invalid_request_error", "code": "invalid_value"}, True),
        (None, {"type": "error", "code": "invalid_prompt", "message": "no"}, True),
        (None, {"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "no"}}}, True),
        (None, {"error": {"code": 400, "message": "Provider returned error"}}, True),
        (200, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, False),
        (None, {"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}, False),
        (None, {"type": "invalid_request_error", "code": "rate_limit_exceeded", "message": "slow down"}, False),
        (None, {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "x"}}}, False),
        (None, {"code": "invalid_api_key"}, False),
        (None, None, False),
        (401, {"error": {"type": "invalid_request_error"}}, False),
        (500, {"error": {"code": 400}}, False),
    ],
)
def test_error_that_finds_fault_with_a_request(status, body, is_fault):
    assert finds_fault(SdkError("no", status, body)) is is_fault
