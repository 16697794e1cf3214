# ruff: noqa: E501  (a pattern is read most easily in one line)
"""Recognises a provider's "too long" in whatever form it comes, and reads the limits that it names.

One table, in the order it is tried, each row with the provider and the message it was made from. Rows are written
for a kind of message, not for one text: providers copy each other's words and change the numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

OverflowKind = Literal["input_tokens", "max_tokens", "request_bytes", "media", "rate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """One request was too large, and in which way."""

    kind: OverflowKind
    """`input_tokens`: shorten the history. `max_tokens`: the input fits, ask for a shorter answer. `request_bytes`,
    `media`: another limit than tokens. `rate`: this request alone is over a limit per minute, waiting can't help."""
    message: str
    limit_tokens: int | None = None
    """The window, or the limit of the input, that the error names."""
    used_tokens: int | None = None
    """What the provider counted in the input."""
    max_tokens: int | None = None
    """The room for the answer that was asked for."""
    excess_tokens: int | None = None
    limit_bytes: int | None = None
    used_bytes: int | None = None
    limit_images: int | None = None
    limit_pixels: int | None = None
    path: str = ""
    """Where in the request, as the provider names it: `messages.88.content.1.image.source.base64.data`."""
    silent: bool = False
    """No error: the answer only showed it."""


# --- the table -------------------------------------------------------------------------------------------------------

_N = r"(?<![\w.-])(?P<{}>\d{{1,3}}(?:[,._ ]\d{{3}})+(?!\d)|\d+(?:\.\d+(?= ?[km]))?)\s*(?P<{}_unit>[km](?![a-z]))?"


def _number(name: str) -> str:
    return _N.format(name, name)


_USED, _LIMIT, _MAX, _TOTAL, _EXCESS = (_number(n) for n in ("used", "limit", "max", "total", "excess"))
_CONTEXT = r"(?:context (?:length|window|size|limit)|max(?:imum)? (?:context|prompt|input|sequence|model) ?(?:length|len|tokens|size)?)"
_INPUT = r"(?:input|prompt|messages?|conversation|context|request|query)"

_Row = tuple[OverflowKind, str]

_NOT: tuple[str, ...] = (
    # OpenAI: "max_tokens is too large: 100000. This model supports at most 16384 completion tokens."
    # Ollama: "max_tokens (384000) exceeds model's maximum output tokens (65536)"; Anthropic: "max_tokens: 100000 > 64000,
    # which is the maximum allowed number of output tokens". The input has no part in it.
    r"max_?(?:completion_|output_|new_)?tokens\b[^.]{0,40}(?:too large|too high|must be (?:less|at most)|exceeds? (?:the )?model'?s? max\w* (?:output|completion))(?!.*context)",
    r"supports at most \d+ (?:completion|output) tokens",
    r"maximum (?:allowed )?(?:number of )?(?:output|completion) tokens",
    # Copilot and others: "The request was rejected. Possible causes: ..." says nothing certain.
    r"possible causes:",
    # budget of thinking, name of a tool, number of stop words: other fields that are too long
    r"\b(?:tool|function|schema|name|metadata|user|stop|description|key|id)['\"`\w.\[\]: ]{0,30}(?:string too long|is too long|too many)",
    r"string (?:too long|should have at most)[^.]{0,80}(?:tool_call|call_id|\.name|\.id\b|metadata)",
    r"budget_tokens",
    r"too long:? \d+ ?> ?\d{1,4} char",
)

_TABLE: tuple[_Row, ...] = (
    # --- media: Anthropic "At least one of the image dimensions exceed max allowed size for many-image requests: 2000
    # pixels"; "image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"
    ("media", r"image dimensions? exceeds? max\w* allowed size[^:]*: (?P<pixels>\d+) pixels"),
    ("media", r"image (?:size )?exceeds (?:the )?(?:max\w*|\d+(?:\.\d+)? ?mb)"),
    # Anthropic "too many images and documents: 120 + 0 > 100", "Too much media: 0 document pages + 107 images > 100"
    ("media", r"too (?:many|much) (?:images?|documents?|media|pages|pictures)[^>]*(?:> (?P<images>\d+))?"),
    # Anthropic "A maximum of 100 PDF pages may be provided."
    ("media", r"maximum of (?P<images>\d+) (?:pdf )?(?:pages|images|documents)"),
    # gateways "request contains 51 images, exceeding the maximum of 50 allowed per request"; Mistral, vLLM "At most 1
    # image(s) may be provided in one request."
    ("media", r"\d+ images?\W+(?:which )?exceed\w* the (?:max\w*|limit) (?:of )?(?P<images>\d+)"),
    ("media", r"(?:at most|maximum(?: number)? of|up to|limit of) (?P<images>\d+) (?:image|document|pdf|media|audio|video)\w*"),
    ("media", r"(?:number|count) of (?:images?|media|documents?|pages)[^.]{0,40}(?:exceed|greater|more than|too)\w*[^\d]*(?P<images>\d+)?"),
    # MiniMax "media exceeds size limit: max 10485760 bytes (2013)"
    ("media", r"(?:media|image|pdf|document|audio|video|file)s?\b[^.]{0,40}(?:exceeds? (?:the )?(?:max\w* )?(?:allowed )?size|(?:is )?too large)(?!.*token)"),
    # --- tokens per minute that this request alone exceeds. Groq "Request too large for model ... on tokens per minute
    # (TPM): Limit 6000, Requested 14810"; OpenAI "Request too large for gpt-4o ... Limit 30000, Requested 45000"
    ("rate", rf"(?:tokens per min\w*|tpm)\b.{{0,20}}limit:? {_LIMIT}.{{0,60}}requested:? {_USED}"),
    # Anthropic 429 "This request would exceed the rate limit for your organization ... of 30,000 input tokens per
    # minute" names no size of the request: waiting may help, so it is no overflow.
    # --- max_tokens: Anthropic "input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000"
    ("max_tokens", rf"exceeds? context (?:limit|window|length):? {_USED} ?\+ ?{_MAX} ?> ?{_LIMIT}"),
    # OpenAI, vLLM, DeepSeek "maximum context length is 4097 tokens. However, you requested 4120 tokens (3120 in the
    # messages, 1000 in the completion)"; legacy "(1044 in your prompt; 3072 for the completion)"
    ("max_tokens", rf"(?:max\w* )?context (?:length|window|size)\D{{0,20}} {_LIMIT}[^(]*requested (?:about )?{_TOTAL} tokens \({_USED} (?:tokens )?(?:in|of|from) (?:the|your) (?:messages|prompt|text|input)[^,;)]*[,;](?: (?P<tool>\d+) in the functions[,;])?(?: and)? {_MAX}"),
    # OpenRouter "maximum context length is 200000 tokens. However, you requested about 216000 tokens (150000 of text
    # input, 2000 of tool input, 64000 in the output)"
    ("max_tokens", rf"context (?:length|window|size)\D{{0,20}} {_LIMIT}[^(]*requested (?:about )?{_TOTAL} tokens \({_USED} of text input(?:, (?P<tool>\d+) of tool input)?(?:, \d+ of \w+ input)*, {_MAX} in the output"),
    # vLLM "you requested 0 output tokens and your prompt contains at least 262145 input tokens"
    ("max_tokens", rf"context (?:length|window|size)\D{{0,20}} {_LIMIT}.*requested {_MAX} output tokens and your (?:prompt|request|input) (?:contains|has) (?:at least )?{_USED} (?:input )?tokens"),
    # vLLM "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 8192
    # tokens and your request has 5000 input tokens (4096 > 8192 - 5000)"
    ("max_tokens", rf"max_(?:completion_)?tokens\W.{{0,60}}too large: {_MAX}\..*context (?:length|window|size)\D{{0,20}} {_LIMIT} tokens and your (?:request|prompt) has {_USED}"),
    # vLLM "You passed 4097 input tokens and requested 100 output tokens. However, the model's context length is only 4096"
    ("max_tokens", rf"passed {_USED} input tokens and requested {_MAX} output tokens.*context length is only {_LIMIT}"),
    # Cloudflare "The estimated number of input and maximum output tokens (9000) exceeded this model context window limit"
    ("max_tokens", rf"input and max\w* output tokens \({_TOTAL}\) exceed\D*{_LIMIT}"),
    # TGI "`inputs` tokens + `max_new_tokens` must be <= 8192. Given: 6204 `inputs` tokens and 2047 `max_new_tokens`"
    ("max_tokens", rf"inputs\W* tokens \+ \W*max_new_tokens\W* must be <= {_LIMIT}\. given: {_USED} \W*inputs\W* tokens and {_MAX}"),
    # SGLang "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of
    # 140000 tokens: 120000 tokens from the input messages and 20000 tokens for the completion."
    ("max_tokens", rf"context (?:length|window|size) of {_LIMIT} tokens\.? you requested a total of {_TOTAL} tokens: {_USED} tokens from the input\D*{_MAX}"),
    # Bedrock "The maximum tokens you requested exceeds the model limit"; others "prompt (1000) + max_tokens (5000) >
    # context (4096)", "sum of prompt tokens 120000 and max_tokens 20000 exceeds 131072"
    ("max_tokens", rf"(?:prompt|input)\w*(?: (?:tokens|length))*\W*{_USED}\D{{0,20}}(?:\+|plus|and)\W*max_(?:new_|output_|completion_)?tokens\W*{_MAX}\D{{0,60}}{_LIMIT}"),
    ("max_tokens", rf"{_USED} (?:input|prompt) tokens?\W*(?:\+|plus|and)\W*{_MAX} (?:output|completion|max)\D{{0,60}}{_LIMIT}"),
    ("max_tokens", r"(?:input|prompt)(?: length| tokens)? (?:and|\+|plus) [`'\"]?max_(?:new_|output_|completion_)?tokens[`'\"]? exceeds?"),
    # --- request bytes: Copilot "(5.5 MB request; 5.0 MB limit)", gRPC "Sent message larger than max (50000056 vs.
    # 20971520)", Anthropic "Request exceeds the maximum size", nginx "Request Entity Too Large"
    ("request_bytes", r"\((?P<used_bytes>[\d.]+ ?[km]b) request; (?P<limit_bytes>[\d.]+ ?[km]b) limit\)"),
    ("request_bytes", r"message larger than max \((?P<used_bytes>\d+) vs\.? (?P<limit_bytes>\d+)\)"),
    ("request_bytes", r"(?:request|payload|body|content)[^.]{0,40}(?:exceeds?|larger than|over|too large)[^.]{0,40}?(?P<limit_bytes>\d+(?:\.\d+)? ?(?:[km]i?b|bytes))"),
    ("request_bytes", r"^(?!.*tokens?\b).*(?:payload too large|request entity too large|content too large|request[_ ]too[_ ]large|body (?:is )?too large|exceeds the maximum (?:allowed )?(?:request )?size|maximum request size)"),
    # --- input tokens, with numbers
    # Anthropic "text is too long: 1048577 > 1048576 characters" names no tokens
    ("input_tokens", r"too long:? \d+ ?> ?\d+ char"),
    # watsonx "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model"
    ("input_tokens", rf"number of input tokens {_USED} cannot exceed\D{{0,40}}{_LIMIT}"),
    # Snowflake "max tokens of 8192 exceeded"
    ("input_tokens", rf"max tokens of {_LIMIT} exceeded"),
    # Anthropic, Bedrock "prompt is too long: 200251 tokens > 200000 maximum"
    ("input_tokens", rf"too (?:long|large|big)\D{{0,30}}{_USED}(?: tokens?)?\s?(?:>|exceeds|vs\.?|/|\D{{0,30}}(?:max|limit|context)\D{{0,30}})\s?{_LIMIT}"),
    # OpenAI "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens."
    ("input_tokens", rf"(?:exceeds?|over)\D{{0,40}}limit of {_LIMIT}(?: tokens)?\.\D{{0,40}}resulted in {_USED}"),
    # OpenAI, FastChat "maximum context length is 2048 tokens. However, your messages resulted in 3503 tokens"; vLLM
    # "However, your request has 8195 input tokens"; xAI "maximum prompt length is 131072 but the request contains 136973"
    ("input_tokens", rf"{_CONTEXT} (?:is|of|was|:)? ?(?:only )?{_LIMIT}.{{0,40}}?(?:resulted in|has|have|contains?|requested|is|are|got|but)\D{{0,40}}{_USED}"),
    # Gemini "The input token count (134123) exceeds the maximum number of tokens allowed (131072)"; Copilot "prompt
    # token count of 391491 exceeds the limit of 128000"; "Input length 131393 exceeds the maximum allowed input length
    # of 131040 tokens"; llama-cpp-python "Requested tokens (2285) exceed context window of 2048"
    ("input_tokens", rf"(?:tokens?|length|count|size|{_INPUT})\D{{0,24}}{_USED}\)?\s?(?:input |prompt )?(?:tokens?)?\)?,?\s?(?:which |that )?(?:exceed(?:s|ed|ing)?|is (?:greater|longer|larger|more) than|greater than|over|>)\D{{0,70}}{_LIMIT}"),
    # Together "The input (516368 tokens) is longer than the model's context length (262144 tokens)"; Mistral "Prompt
    # contains 321774 tokens and 0 draft tokens, too large for model with 262144 maximum context length"; ds4 "Prompt has
    # 5,958,968 tokens, but the configured context size is 256,000 tokens"
    ("input_tokens", rf"{_INPUT}\D{{0,24}}{_USED} tokens?\b.{{0,60}}?(?:too (?:large|long)|longer than|exceeds?|but)\D{{0,60}}{_LIMIT}"),
    # Vertex "the input token count is 2000000 but model only supports up to 1048576"
    ("input_tokens", rf"(?:token count|tokens?|length) (?:is|of|was) {_USED}\D{{0,10}}(?:but|while)\D{{0,50}}{_LIMIT}"),
    # Bedrock "Too many input tokens. Max input tokens: 8192, request input token count: 10044"
    ("input_tokens", rf"max(?:imum)? (?:input |prompt )?tokens\D{{0,12}}{_LIMIT}\D{{0,40}}(?:count|got|request\w*|is|actual)\D{{0,24}}{_USED}"),
    # TGI "`inputs` must have less than 1024 tokens. Given: 2000"
    ("input_tokens", rf"inputs?\W* (?:must have (?:less|fewer) than|tokens must be <=?) {_LIMIT}(?: tokens)?\.? given:? {_USED}"),
    # llama.cpp "Cannot truncate prompt with n_keep (5000) >= n_ctx (4096)"
    ("input_tokens", rf"n_keep \({_USED}\) >= n_ctx \({_LIMIT}\)"),
    # Moonshot "exceeded model token limit: 262144 (requested: 269030)"
    ("input_tokens", rf"^(?=.*(?:token|context|length|prompt)).*?exceed(?:s|ed)?\D{{0,60}}{_LIMIT}\D{{1,30}}(?:requested|got|received|actual|current|given)\D{{0,12}}{_USED}"),
    # Cerebras "Current length is 42328 while limit is 40000"
    ("input_tokens", rf"(?:current|total|prompt|input) (?:length|tokens?|size) (?:is|of|:) ?{_USED} (?:while|but|and)\D{{0,24}}limit\D{{0,8}}{_LIMIT}"),
    # LM Studio "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with
    # context length of only 32768 tokens"
    ("input_tokens", rf"keep the first {_USED} tokens.*context length of only {_LIMIT}"),
    # Cohere "too many tokens: size limit exceeded by 713295 tokens... The limit for this model is 288000 tokens."
    ("input_tokens", rf"exceeded by {_EXCESS} tokens.*limit\D{{0,30}}{_LIMIT}"),
    # Ollama "prompt too long; exceeded max context length by 100918 tokens"
    ("input_tokens", rf"exceed(?:s|ed)\D{{0,40}}by {_EXCESS} tokens"),
    # DashScope "Range of input length should be [1, 983616]"
    ("input_tokens", rf"input length should be \[\d+, ?{_LIMIT}\]"),
    # GitHub Models "Request body too large for gpt-4o model. Max size: 8000 tokens."
    ("input_tokens", rf"too (?:large|long)\b.{{0,60}}max(?:imum)?(?: size)?\D{{0,12}}{_LIMIT} tokens"),
    # SGLang "Requested token count exceeds the model's maximum context length of 131072 tokens."
    ("input_tokens", rf"(?:token|{_INPUT}|length)[^.]{{0,60}}(?:exceed|longer than|greater than|larger than|over)\w*[^.\d]{{0,60}}{_LIMIT} ?tokens"),
    ("input_tokens", rf"exceed\w*\D{{0,40}}{_CONTEXT}\D{{0,16}}{_LIMIT}"),
    # --- input tokens, without
    # OpenAI Responses "Your input exceeds the context window of this model."; llama.cpp "the request exceeds the
    # available context size"; Bedrock "Input is too long for requested model."; Zhipu "Prompt exceeds max length"
    ("input_tokens", rf"{_INPUT}[^.]{{0,40}}exceed\w*[^.]{{0,40}}(?:context|max\w* (?:length|number|tokens|input|prompt)|token limit|limit of tokens)"),
    ("input_tokens", rf"\b{_INPUT}(?: (?:length|text|tokens?|size))? (?:is |are |was )?too (?:long|large|big)\b"),
    # "The total length of all messages is too long."
    ("input_tokens", rf"(?:length|size|number of tokens) of (?:all |the |your )*{_INPUT}\w* (?:is |are )?(?:too|exceed)"),
    # Zhipu "tokens in request more than max tokens allowed"
    ("input_tokens", r"tokens? in (?:the )?(?:request|prompt|messages?)[^.]{0,20}(?:more than|exceed|greater|over)"),
    # LM Studio "The number of tokens to keep from the initial prompt is greater than the context length."
    ("input_tokens", r"(?:tokens?|prompt|input)[^.]{0,60}(?:greater|longer|larger|more) than the (?:model'?s )?(?:context|max)"),
    ("input_tokens", r"too many (?:input |prompt )?tokens(?! per)|context[ _](?:length|window|size|limit)[ _](?:is )?exceed|exceed\w* (?:the |its |this |available |model'?s? )*(?:max\w* )?context (?:length|window|size|limit)"),
    ("input_tokens", r"(?:maximum context length|context window)[^.]{0,60}(?:reduce|exceed|shorten)|reduce the length of (?:the|your) (?:messages|prompt|input)"),
    ("input_tokens", r"(?:context|conversation|history) (?:is )?(?:full|too long)|context overflow|ran out of context|out of context (?:space|window)"),
    ("input_tokens", r"(?:超出|超过|超長|过长|太长)[^。]{0,16}(?:上下文|长度|token)|(?:上下文|输入|token)[^。]{0,16}(?:超出|超过|过长|太长|超长)|prompt[^。]{0,6}超长"),
    # Volcengine "Total tokens of image and text exceed max message tokens"
    ("input_tokens", r"tokens of [^.]{0,30}exceed max message tokens"),
    ("input_tokens", r"string too long\. expected a string with maximum length \d{6,}"),
    # OpenAI "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576"
    ("input_tokens", r"(?:messages|input)\W[^:]*(?:content|text|output|arguments)\W*: string too long"),
)  # fmt: skip

_CODES: dict[str, OverflowKind] = {
    "context_length_exceeded": "input_tokens",  # OpenAI, Azure, Groq, Mistral
    "context_window_exceeded": "input_tokens",
    "model_context_window_exceeded": "input_tokens",  # Anthropic, as a stop reason
    "exceed_context_size_error": "input_tokens",  # llama.cpp
    "model_max_prompt_tokens_exceeded": "input_tokens",  # GitHub Copilot
    "max_prompt_tokens_exceeded": "input_tokens",
    "string_above_max_length": "input_tokens",  # OpenAI, a single text of more than 10 MB
    "tokens_limit_reached": "input_tokens",  # GitHub Models
    "input_too_long": "input_tokens",
    "prompt_too_long": "input_tokens",
    "contextwindowexceedederror": "input_tokens",  # litellm
    "request_too_large": "request_bytes",  # Anthropic, 413
}


@lru_cache(maxsize=1)
def _compiled() -> tuple[tuple[OverflowKind, re.Pattern[str]], ...]:
    """The table, made on the first error: it takes 30 ms."""
    return tuple((kind, re.compile(pattern, re.IGNORECASE | re.DOTALL)) for kind, pattern in _TABLE)


@lru_cache(maxsize=1)
def _never() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{p})" for p in _NOT), re.IGNORECASE | re.DOTALL)


_RATE = re.compile(
    r"rate[ _-]?limit|tokens? per (?:min|day|hour)|\btp[md]\b|quota|overloaded|too many requests|throttl|wait before",
    re.I,
)
_BOUND = re.compile(r"invalid\W+signature\W+in\W+(?:redacted_)?thinking\W+block", re.I)
_REFUSALS = (400, 422)
"""Statuses by which a provider finds fault with what a request holds."""
_REFUSAL = re.compile(
    r"invalid_(?!api_key|authentication|organization)\w+|bad_?request(?:_?error)?|unprocessable\w*|validation_?error"
    r"|(?:missing_required|unknown|unsupported)_(?:parameter|value)|400|422"
)
"""The same as a code in a stream, where there is no status: Anthropic's `invalid_request_error`, OpenAI's `invalid_prompt`
and `invalid_value`, the number in gateways."""
_MUTE_STATUSES = (400, 413, 500)
_EMPTY_WORDS = frozenset({
    "a", "an", "bad", "body", "client", "code", "empty", "entity", "error", "failed", "http", "invalid", "large", "no",
    "none", "null", "occurred", "payload", "request", "response", "status", "too", "unknown", "with",
})  # fmt: skip
"""An error made of nothing but these says nothing: "400 Bad Request", `invalid_request_error`. A server that says
"Internal server error" says that it is to blame."""
_PATH = re.compile(r"\b((?:messages|input)[.\[]\d+[\w.\[\]]*)")
_MAX_CHARS = 20_000
_SEARCHED_CHARS = 2_500
"""Error texts are short; what is longer quotes the request."""


def classify(
    error: Any = None, *, status: int | None = None, body: Any = None, window_tokens: int | None = None
) -> Overflow | None:
    """What kind of overflow an error is; None when it is none.

    `error` is an exception of an SDK (read by its `status_code`, `body`, `response` and text), or anything that
    `body` may be: a body as text, bytes or decoded JSON, an error event of a stream, or a reply whose stop reason
    tells it. With `window_tokens`, a reply whose usage is above the window counts too (z.ai, 2026: no error at all).
    """
    if isinstance(error, BaseException):
        status = status if status is not None else _status(error)
    said = _said(error, body)
    return _silent(said, window_tokens) or _by_text(said, status) or _by_code(said, status)


def names_changed_thinking(error: Any = None, *, body: Any = None) -> bool:
    """Whether a request was refused because what stands before its signed thinking is not what it was made behind.

    Anthropic, autumn 2026: "Invalid `signature` in `thinking` block. The block is bound to a different conversation".
    Takes what `classify` takes.
    """
    return any(_BOUND.search(message) for message in _said(error, body).messages)


def finds_fault(error: BaseException) -> bool:
    """Whether a provider refused a request for what it holds: a 400 or 422, or the same as an event of a stream."""
    status = _status(error)
    if status in _REFUSALS:
        return True
    if status not in (None, 200):
        return False
    said = _said(None, getattr(error, "body", None))
    return any(map(_REFUSAL.fullmatch, said.codes)) and not any(map(_RATE.search, (*said.messages, *said.codes)))


def says_nothing(error: BaseException) -> bool:
    """Whether an error names no cause: an empty body, "Bad Request", an event with an empty message.

    Only such are meant as hide an overflow in the wild: status 400, 413, 500, or an event of a stream.
    """
    status, body = _status(error), getattr(error, "body", None)
    if body is None or status not in (None, 200, *_MUTE_STATUSES):
        return False
    said = _said(None, body)
    if status in (None, 200) and not said.codes and not said.messages and not isinstance(body, Mapping):
        return False
    return all(
        _EMPTY_WORDS.issuperset(re.findall(r"[^\W\d_]+", text.lower())) for text in (*said.messages, *said.codes)
    )


def _said(error: Any, body: Any) -> _Said:
    if body is None and not isinstance(error, BaseException):
        error, body = None, error
    said = _Said()
    if body is not None:
        said.read(body)
    if error is not None:
        _read_exception(error, said)
    return said


def _by_text(said: _Said, status: int | None) -> Overflow | None:
    for message in said.messages:
        if _never().search(message):
            return None
    limited = status in (429, 529) or any(_RATE.search(m) for m in said.messages)
    for kind, pattern in _compiled():
        if limited and kind not in ("rate", "media", "max_tokens") and not said.codes & _CODES.keys():
            continue
        for message in said.messages:
            if found := pattern.search(message):
                overflow = _read_match(kind, message, found, said)
                return overflow if overflow.kind != "rate" or _alone(overflow) else None
    return None


def _alone(overflow: Overflow) -> bool:
    """A limit per minute is an overflow only when this request alone is above it."""
    return (overflow.used_tokens or 0) > (overflow.limit_tokens or 0)


def _by_code(said: _Said, status: int | None) -> Overflow | None:
    for code in said.codes:
        if (kind := _CODES.get(code)) is not None:
            return Overflow(
                kind=kind,
                message=said.message,
                limit_tokens=said.numbers.get("n_ctx"),
                used_tokens=said.numbers.get("n_prompt_tokens"),
            )
    if status == 413 and not any(_never().search(m) or _RATE.search(m) for m in said.messages):
        return Overflow(kind="request_bytes", message=said.message)
    return None


def _silent(said: _Said, window_tokens: int | None) -> Overflow | None:
    if said.stop == "model_context_window_exceeded":
        return Overflow(kind="input_tokens", message=said.stop, used_tokens=said.used, silent=True)
    if said.stop in ("length", "max_tokens") and said.empty:
        # llama.cpp, Ollama: no room for a single token behind a prompt that was cut or just fits
        return Overflow(kind="input_tokens", message="an empty answer, cut for its length", used_tokens=said.used,
                        limit_tokens=window_tokens, silent=True)  # fmt: skip
    if window_tokens is not None and said.used is not None and said.used > window_tokens:
        return Overflow(kind="input_tokens", message="usage above the window", used_tokens=said.used,
                        limit_tokens=window_tokens, silent=True)  # fmt: skip
    return None


def _read_match(kind: OverflowKind, message: str, found: re.Match[str], said: _Said) -> Overflow:
    groups = {name: text for name, text in found.groupdict().items() if text}
    used, limit, room = (_tokens(groups, name) for name in ("used", "limit", "max"))
    if (tool := groups.get("tool")) is not None and used is not None:
        used += int(tool)
    if kind == "max_tokens" and used is not None and limit is not None and used >= limit:
        kind = "input_tokens"  # the input alone is too long: a smaller answer would not help
    path = _PATH.search(message)
    return Overflow(
        kind=kind,
        message=message[:500],
        limit_tokens=limit if limit is not None else said.numbers.get("n_ctx"),
        used_tokens=used if used is not None else said.numbers.get("n_prompt_tokens"),
        max_tokens=room,
        excess_tokens=_tokens(groups, "excess"),
        limit_bytes=_bytes(groups.get("limit_bytes")),
        used_bytes=_bytes(groups.get("used_bytes")),
        limit_images=_tokens(groups, "images"),
        limit_pixels=_tokens(groups, "pixels"),
        path=path[1] if path else "",
    )


def _tokens(groups: Mapping[str, str], name: str) -> int | None:
    """`1,047,576`, `200_000`, `262.144` and `128k` as a number."""
    text = groups.get(name)
    if text is None:
        return None
    unit = (groups.get(f"{name}_unit") or "").lower()
    if unit and re.fullmatch(r"\d+\.\d+", text):
        return round(float(text) * _UNITS[unit])
    digits = re.sub(r"\D", "", text)
    return int(digits[:15]) * _UNITS[unit]


_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}


def _bytes(text: str | None) -> int | None:
    if text is None or (found := re.match(r"([\d.]+) ?([kmKM]?)", text)) is None:
        return None
    return round(float(found[1].rstrip(".")) * _UNITS[found[2].lower()])


# --- what was said ---------------------------------------------------------------------------------------------------


class _Said:
    """Texts, codes and figures gathered from a body of any shape."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.codes: set[str] = set()
        self.numbers: dict[str, int] = {}
        self.stop = ""
        self.used: int | None = None
        self.empty = False

    @property
    def message(self) -> str:
        return self.messages[0][:500] if self.messages else ", ".join(sorted(self.codes))

    def read(self, body: Any, depth: int = 0) -> None:
        if depth > 8:
            return
        if isinstance(body, (bytes, bytearray)):
            body = bytes(body).decode("utf-8", "replace")
        if isinstance(body, str):
            self._text(body, depth)
        elif isinstance(body, Mapping):
            self._object(body, depth)
        elif isinstance(body, (list, tuple)):
            for item in body[:20]:
                self.read(item, depth + 1)
        elif hasattr(body, "model_dump"):
            self.read(body.model_dump(), depth + 1)

    def _text(self, text: str, depth: int) -> None:
        text = text[:_MAX_CHARS].strip()
        if not text:
            return
        inner = list(_json_in(text))
        for value in inner:
            self.read(value, depth + 1)
        if not inner or not text.startswith(("{", "[", '"', "data:", "event:")):
            self.messages.append(text if len(text) <= _SEARCHED_CHARS else text[:_SEARCHED_CHARS])

    def _object(self, body: Mapping[str, Any], depth: int) -> None:
        for key in ("code", "type", "error_code", "reason", "status", "error_type"):
            if isinstance(body.get(key), (str, int)):
                self.codes.add(str(body[key]).strip().lower())
        for key in ("n_ctx", "n_prompt_tokens"):
            if isinstance(body.get(key), int):
                self.numbers[key] = body[key]
        for key in ("message", "error", "errors", "detail", "details", "msg", "raw", "metadata", "response",
                    "error_message", "incomplete_details", "cause", "Message", "body"):  # fmt: skip
            if body.get(key) is not None:
                self.read(body[key], depth + 1)
        self._reply(body)

    def _reply(self, body: Mapping[str, Any]) -> None:
        """A reply that is no error: why it stopped, what it used, whether it says anything."""
        choices = body.get("choices")
        if isinstance(choices, (list, tuple)) and choices and isinstance(choices[0], Mapping):
            choice = choices[0]
            self.stop = str(choice.get("finish_reason") or "")
            message = choice.get("message") or choice.get("delta")
            if isinstance(message, Mapping):
                self.empty = not any(message.get(k) for k in ("content", "tool_calls", "reasoning_content", "refusal"))
        elif isinstance(body.get("stop_reason"), str):
            self.stop = body["stop_reason"]
            self.empty = body.get("content") == []
        usage = body.get("usage")
        if isinstance(usage, Mapping):
            fields = ("prompt_tokens", "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            counts = [usage[f] for f in fields if isinstance(usage.get(f), int)]
            self.used = sum(counts) if counts else None


def _json_in(text: str) -> Iterator[Any]:
    """JSON values in a text: the whole of it, the `data:` lines of a stream, or one behind other words."""
    if text.startswith(("data:", "event:")) or "\ndata:" in text:
        for line in text.splitlines():
            if line.startswith("data:"):
                yield from _json_in(line[5:].strip())
        return
    start = 0 if text[:1] in ("{", "[", '"') else text.find("{")
    if start < 0:
        return
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:])
    except (ValueError, RecursionError):
        return
    if isinstance(value, (dict, list)) or (isinstance(value, str) and start == 0):
        yield value


def _status(error: BaseException) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "http_status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
                return value
    return None


def _read_exception(error: BaseException, said: _Said) -> None:
    """By duck typing: `body` of the official SDKs, `response` of HTTP clients and botocore, text, and the cause."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < 6:
        seen.add(id(current))
        said.codes.add(type(current).__name__.lower())
        body = getattr(current, "body", None)
        if body is not None:
            said.read(body)
        for name in ("code", "type", "error_code"):
            if isinstance(getattr(current, name, None), str):
                said.codes.add(getattr(current, name).lower())
        response = getattr(current, "response", None)
        if isinstance(response, Mapping):
            said.read(response)
        elif body is None and response is not None:
            said.read(_response_text(response))
        said.read(getattr(current, "message", None))
        said.read(str(current))
        current = current.__cause__ or current.__context__


def _response_text(response: Any) -> str:
    try:
        text = response.text
    except Exception:  # a streamed response that was not read raises an error of its HTTP client
        return ""
    return text if isinstance(text, str) else ""
