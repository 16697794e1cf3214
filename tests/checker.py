"""A second opinion on whether a request is valid, written from the providers' rules and not from our own laws.

Shares no code with `packlight.laws`, on purpose: two readings of the same rules that agree are worth more than
one. `check` says what is wrong with a request; `new_violations` what a rewrite made wrong; `Binding` plays a
provider that ties each signed thinking block to everything before it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

Json = Any

SOFT = frozenset({"open_call", "bad_arguments", "lone_surrogate"})
"""Rules that a legal history may break: a call that still waits, what a model wrote, what a tool printed."""


@dataclass(frozen=True)
class Finding:
    position: tuple[int, ...]
    rule: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.position)) or '-'}: {self.rule}: {self.detail}"


def check(request: Json, format: str, *, soft: bool = True) -> list[str]:
    """Every violation, as `position: rule: detail`; without those of `SOFT` when `soft` is false."""
    return [str(f) for f in findings(request, format) if soft or f.rule not in SOFT]


def findings(request: Json, format: str) -> list[Finding]:
    body = plain(request)
    if isinstance(body, list):
        body = {"input" if format == "responses" else "messages": body}
    check_format = {"anthropic": _Anthropic, "chat": _Chat, "responses": _Responses}[format]
    checker = check_format(body)
    checker.run()
    return checker.found


def _class(rule: str, format: str) -> str:
    """Rules that only differ by what stands around the same wound.

    In Responses a call may be answered in any later place: what is put behind an open one makes it no worse. A
    second answer to one call is an orphan as soon as that call has gone with its first answer.
    """
    if format == "responses" and rule == "open_call":
        return "unanswered_call"
    return "orphan_result" if rule == "duplicate_result" else rule


def entries(request: Json, format: str) -> list[Json]:
    """The list inside a request, plain."""
    body = plain(request)
    return body if isinstance(body, list) else body["input" if format == "responses" else "messages"]


def new_violations(before: Json, after: Json, format: str) -> list[str]:
    """What `after` has more of than `before`, by rule; and what only the comparison can tell."""
    old = Counter(_class(f.rule, format) for f in findings(before, format))
    fresh = []
    for found in findings(after, format):
        if old[_class(found.rule, format)]:
            old[_class(found.rule, format)] -= 1
        else:
            fresh.append(str(found))
    was, now = entries(before, format), entries(after, format)
    if any(_is_user(m) for m in was) and not any(_is_user(m) for m in now):
        fresh.append("-: no_user_message: nothing from the user is left")
    if was and now and was[-1].get("role") == "user" and now[-1].get("role") == "assistant":
        fresh.append(f"{len(now) - 1}: ends_with_assistant: the request ended with the user")
    if format == "responses":
        fresh += [str(f) for f in _torn_groups(was, now)]
    return fresh


def plain(value: Json) -> Json:
    """SDK objects as the JSON they stand for."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True, by_alias=True)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def has_surrogate(value: Json) -> bool:
    if isinstance(value, str):
        return any(0xD800 <= ord(char) <= 0xDFFF for char in value) if not value.isascii() else False
    if isinstance(value, dict):
        return any(has_surrogate(key) or has_surrogate(item) for key, item in value.items())
    return isinstance(value, list) and any(has_surrogate(item) for item in value)


def _is_user(entry: Json) -> bool:
    return entry.get("role") == "user"


def _blank(text: Json) -> bool:
    return isinstance(text, str) and not text.strip()


class _Base:
    key = "messages"

    def __init__(self, body: Json) -> None:
        self.body = body
        self.list: list[Json] = body.get(self.key) or []
        self.found: list[Finding] = []

    def bad(self, position: tuple[int, ...], rule: str, detail: str = "") -> None:
        self.found.append(Finding(position, rule, str(detail)))

    def run(self) -> None:
        if not isinstance(self.body.get(self.key), (list, str)) or not self.list:
            self.bad((), "empty_list", self.key)
            return
        if isinstance(self.list, str):
            return
        for i, entry in enumerate(self.list):
            if has_surrogate(entry):
                self.bad((i,), "lone_surrogate")
        self.walk()

    def walk(self) -> None:
        raise NotImplementedError

    def arguments(self, position: tuple[int, ...], text: Json) -> None:
        try:
            valid = isinstance(json.loads(text), dict)
        except (TypeError, ValueError):
            valid = False
        if not valid:
            self.bad(position, "bad_arguments", repr(text)[:80])


BINDING = re.compile(r"(fable-5|mythos-5)[.-][12]|(opus|sonnet|haiku)-5[.-]5")
"""Models that tie a thinking block to everything before it (late 2026)."""


class _Anthropic(_Base):
    THINKING = ("thinking", "redacted_thinking")

    def walk(self) -> None:
        self.first_role()
        self.cache_marks()
        for i, message in enumerate(self.list):
            self.shape(i, message)
        self.pairing()
        self.thinking_in_loop()

    def first_role(self) -> None:
        for i, message in enumerate(self.list):
            if message.get("role") == "system":
                continue
            if message.get("role") != "user" and not self.is_compaction(message):
                self.bad((i,), "first_role", f"starts with {message.get('role')}")
            return
        self.bad((), "first_role", "no user message at all")

    @staticmethod
    def is_compaction(message: Json) -> bool:
        content = message.get("content")
        return isinstance(content, list) and bool(content) and content[0].get("type") == "compaction"

    def shape(self, i: int, message: Json) -> None:
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant", "system"):
            self.bad((i,), "bad_role", role)
        if isinstance(content, str):
            if _blank(content):
                self.bad((i,), "empty_text", "the content is blank")
            return
        if not isinstance(content, list):
            self.bad((i,), "bad_content", type(content).__name__)
            return
        if not content:
            last_assistant = i == len(self.list) - 1 and role == "assistant"
            if not last_assistant and not (role == "system" and message.get("output_config")):
                self.bad((i,), "empty_content")
            return
        for b, block in enumerate(content):
            self.block((i, b), role, block)
        if role == "assistant":
            if all(block.get("type") in self.THINKING for block in content):
                self.bad((i,), "thinking_alone")
            self.server_pairs(i, content)

    def block(self, position: tuple[int, ...], role: Json, block: Json) -> None:
        kind = block.get("type")
        if kind == "text" and _blank(block.get("text", "")):
            self.bad(position, "empty_text")
        if kind == "tool_result":
            inner = block.get("content")
            for k, part in enumerate(inner if isinstance(inner, list) else ()):
                if part.get("type") == "text" and _blank(part.get("text", "")):
                    self.bad((*position, k), "empty_text", "inside a tool_result")
            if inner is not None and not isinstance(inner, (str, list)):
                self.bad(position, "bad_content", type(inner).__name__)
        wrong = role != "assistant" and (
            kind in (*self.THINKING, "tool_use", "server_tool_use") or _server_result(kind)
        )
        if wrong or (role != "user" and kind == "tool_result"):
            self.bad(position, "misplaced_block", f"{kind} in {role}")
        if kind == "compaction":
            first_block, first_message = position[1] == 0, position[0] == 0
            if not first_block or (block.get("signature") and not first_message):
                self.bad(position, "compaction_misplaced")

    def server_pairs(self, i: int, content: list[Json]) -> None:
        """What the provider ran itself is answered inside the same message."""
        open_ids: dict[str, int] = {}
        for b, block in enumerate(content):
            kind = block.get("type")
            if kind in ("server_tool_use", "mcp_tool_use"):
                open_ids[block.get("id")] = b
            elif _server_result(kind) and open_ids.pop(block.get("tool_use_id"), None) is None:
                self.bad((i, b), "server_result_orphan", block.get("tool_use_id"))
        last = i == len(self.list) - 1
        for call_id, b in open_ids.items():
            self.bad((i, b), "open_call" if last else "server_call_unanswered", call_id)

    def pairing(self) -> None:
        pending: dict[str, tuple[int, ...]] = {}
        answered: set[str] = set()
        text_seen = False
        for i, message in enumerate(self.list):
            role = message.get("role")
            blocks = message.get("content") if isinstance(message.get("content"), list) else []
            if role == "assistant" and i and self.list[i - 1].get("role") == "assistant":
                pending = self.calls(i, blocks, pending)  # the API joins messages of one role
                continue
            if role != "user":
                self.unanswered(pending)
                pending, answered, text_seen = {}, set(), False
                if role == "assistant":
                    pending = self.calls(i, blocks, {})
                continue
            if isinstance(message.get("content"), str):
                text_seen = True
            for b, block in enumerate(blocks):
                if block.get("type") != "tool_result":
                    text_seen = True
                    continue
                call_id = block.get("tool_use_id")
                if call_id in pending:
                    del pending[call_id]
                    answered.add(call_id)
                    if text_seen:
                        self.bad((i, b), "result_not_first", call_id)
                elif call_id in answered:
                    self.bad((i, b), "duplicate_result", call_id)
                elif not self.body.get("thread"):  # what was said before is kept at the provider
                    self.bad((i, b), "orphan_result", call_id)
            if text_seen:
                self.unanswered(pending)
                pending = {}
        for call_id, position in pending.items():
            self.bad(position, "open_call", call_id)

    def calls(self, i: int, blocks: list[Json], before: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        pending = dict(before)
        for b, block in enumerate(blocks):
            if block.get("type") == "tool_use":
                if block.get("id") in pending:
                    self.bad((i, b), "duplicate_call_id", block.get("id"))
                pending[block.get("id")] = (i, b)
                if not isinstance(block.get("input"), dict):
                    self.bad((i, b), "bad_arguments", "input is no object")
        return pending

    def unanswered(self, pending: dict[str, tuple[int, ...]]) -> None:
        for call_id, position in pending.items():
            self.bad(position, "unanswered_call", call_id)

    def thinking_in_loop(self) -> None:
        """Manual thinking: the assistant message whose calls are being answered must start with its thinking."""
        thinking, model = self.body.get("thinking"), self.body.get("model") or ""
        manual = isinstance(thinking, dict) and thinking.get("type") == "enabled"
        if not manual or BINDING.search(model):
            return
        for i in range(len(self.list) - 1, -1, -1):
            message = self.list[i]
            blocks = message.get("content") if isinstance(message.get("content"), list) else []
            if message.get("role") == "assistant":
                kinds = [block.get("type") for block in blocks]
                if "tool_use" in kinds and kinds[0] not in self.THINKING:
                    self.bad((i,), "thinking_missing", f"found {kinds[0]}")
                return
            if not all(block.get("type") == "tool_result" for block in blocks) or not blocks:
                return

    def cache_marks(self) -> None:
        marks = 1 if self.body.get("cache_control") else 0
        for tool in self.body.get("tools") or ():
            marks += bool(tool.get("cache_control"))
        system = self.body.get("system")
        for block in system if isinstance(system, list) else ():
            marks += bool(block.get("cache_control"))
        for i, message in enumerate(self.list):
            content = message.get("content")
            for b, block in enumerate(content if isinstance(content, list) else ()):
                inner = block.get("content")
                for part in inner if isinstance(inner, list) else ():
                    marks += bool(isinstance(part, dict) and part.get("cache_control"))
                if not block.get("cache_control"):
                    continue
                marks += 1
                if block.get("type") in self.THINKING:
                    self.bad((i, b), "cache_mark", "on thinking")
                if block.get("type") == "text" and _blank(block.get("text", "")):
                    self.bad((i, b), "cache_mark", "on an empty text")
        if marks > 4:
            self.bad((), "too_many_cache_marks", marks)


def _server_result(kind: Json) -> bool:
    return isinstance(kind, str) and kind.endswith("_tool_result") and kind != "tool_result"


class _Chat(_Base):
    ROLES = ("system", "developer", "user", "assistant", "tool", "function")

    def walk(self) -> None:
        pending: Counter[str] = Counter()
        asked: Counter[str] = Counter()
        at = -1
        for i, message in enumerate(self.list):
            role = message.get("role")
            if role not in self.ROLES:
                self.bad((i,), "bad_role", role)
            if role == "tool":
                self.result(i, message, pending, asked)
                self.content(i, message)
                continue
            if role == "function":
                self.result(i, {"tool_call_id": f"function:{message.get('name')}"}, pending, asked)
                continue
            for call_id in pending.elements():
                self.bad((at,), "unanswered_call", call_id)
            pending, asked, at = Counter(), Counter(), i
            self.content(i, message)
            if role == "assistant":
                pending = self.calls(i, message)
                asked = Counter(pending)
        for call_id in pending.elements():
            self.bad((at,), "open_call", call_id)

    def result(self, i: int, message: Json, pending: Counter[str], asked: Counter[str]) -> None:
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str):
            self.bad((i,), "missing_call_id")
        elif pending[call_id] > 0:
            pending[call_id] -= 1
        else:
            self.bad((i,), "duplicate_result" if asked[call_id] else "orphan_result", call_id)

    def calls(self, i: int, message: Json) -> Counter[str]:
        pending: Counter[str] = Counter()
        calls = message.get("tool_calls")
        if calls is not None and not calls:
            self.bad((i,), "empty_tool_calls")
        for k, call in enumerate(calls or ()):
            if not isinstance(call.get("id"), str):
                self.bad((i, k), "missing_call_id")
            pending[call.get("id")] += 1
            if "function" in call:
                self.arguments((i, k), call["function"].get("arguments"))
                if not call["function"].get("name"):
                    self.bad((i, k), "missing_name")
        legacy = message.get("function_call")
        if legacy:
            pending[f"function:{legacy.get('name')}"] += 1
        return pending

    def content(self, i: int, message: Json) -> None:
        content = message.get("content")
        if isinstance(content, list):
            if not content:
                self.bad((i,), "empty_content")
            for b, part in enumerate(content):
                if part.get("type") == "text" and _blank(part.get("text", "")):
                    self.bad((i, b), "empty_text")
        elif content is None:
            instead = ("tool_calls", "function_call", "refusal", "audio")
            if not (message.get("role") == "assistant" and any(message.get(key) for key in instead)):
                self.bad((i,), "bad_content", "null")
        elif not isinstance(content, str):
            self.bad((i,), "bad_content", type(content).__name__)


CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
}
"""Calls that the client answers, and with what."""


class _Responses(_Base):
    key = "input"

    def walk(self) -> None:
        self.linked = bool(self.body.get("previous_response_id") or self.body.get("conversation"))
        self.pairing()
        self.reasoning()
        seen: set[str] = set()
        for i, item in enumerate(self.list):
            self.shape(i, item)
            item_id = item.get("id")
            if item_id and _made_by_model(item):
                if item_id in seen:
                    self.bad((i,), "duplicate_item_id", item_id)
                seen.add(item_id)

    def shape(self, i: int, item: Json) -> None:
        kind = _kind(item)
        if kind == "function_call":
            self.arguments((i,), item.get("arguments"))
        if kind != "message":
            return
        if item.get("role") not in ("user", "assistant", "system", "developer"):
            self.bad((i,), "bad_role", item.get("role"))
        content = item.get("content")
        if content is None or content == []:
            self.bad((i,), "empty_content")
        for b, part in enumerate(content if isinstance(content, list) else ()):
            if part.get("type") in ("input_text", "output_text", "text") and _blank(part.get("text", "")):
                self.bad((i, b), "empty_text")

    def pairing(self) -> None:
        open_calls: dict[tuple[str, str], int] = {}
        closed: set[tuple[str, str]] = set()
        requests: set[str] = set()
        for i, item in enumerate(self.list):
            kind = _kind(item)
            if kind in CALLS and not _ran_at_provider(item):
                key = (CALLS[kind], _call_id(item))
                if key in open_calls:
                    self.bad((open_calls[key],), "unanswered_call", key[1])
                open_calls[key] = i
                closed.discard(key)
            elif kind == "mcp_approval_request":
                requests.add(item.get("id"))
            elif kind == "mcp_approval_response":
                if item.get("approval_request_id") not in requests and not self.linked:
                    self.bad((i,), "orphan_result", item.get("approval_request_id"))
                requests.discard(item.get("approval_request_id"))
            elif kind in CALLS.values() and not _ran_at_provider(item):
                self.answer(i, (kind, _call_id(item)), open_calls, closed)
        trailing = self.trailing()
        for key, i in open_calls.items():
            self.bad((i,), "open_call" if i >= trailing else "unanswered_call", key[1])

    def answer(self, i: int, key: tuple[str, str], open_calls: dict[tuple[str, str], int], closed: set) -> None:
        if not key[1]:
            self.bad((i,), "missing_call_id")
        elif key in open_calls:
            del open_calls[key]
            closed.add(key)
        elif key in closed:
            self.bad((i,), "duplicate_result", key[1])
        elif not self.linked:
            self.bad((i,), "orphan_result", key[1])

    def trailing(self) -> int:
        """From here on there is nothing but calls, results and what the model made with them."""
        for i in range(len(self.list) - 1, -1, -1):
            if _kind(self.list[i]) == "message" and self.list[i].get("role") != "assistant":
                return i + 1
        return 0

    def reasoning(self) -> None:
        for i, item in enumerate(self.list):
            if _kind(item) != "reasoning":
                continue
            follower = self.list[i + 1] if i + 1 < len(self.list) else None
            if follower is None:
                if not self.linked:
                    self.bad((i,), "reasoning_alone", "nothing follows")
            elif not _made_by_model(follower):
                self.bad((i,), "reasoning_alone", f"followed by {_kind(follower)} {follower.get('role', '')}")


def _kind(item: Json) -> str:
    return item.get("type") or ("message" if "role" in item else "item_reference")


def _call_id(item: Json) -> str:
    return item.get("call_id") or item.get("id") or ""


def _ran_at_provider(item: Json) -> bool:
    return item.get("execution") == "server"


def _made_by_model(item: Json) -> bool:
    kind = _kind(item)
    if kind == "message":
        return item.get("role") == "assistant"
    client = (
        *CALLS.values(),
        "mcp_approval_response",
        "compaction_trigger",
        "configuration_update",
        "additional_tools",
        "item_reference",
    )
    return kind not in client and not kind.endswith("_output")


def _groups(items: list[Json]) -> list[tuple[str, list[str]]]:
    """Each reasoning item's id with the ids of what the same response made after it."""
    groups: list[tuple[str, list[str]]] = []
    current: list[str] | None = None
    for item in items:
        if _kind(item) == "reasoning" and item.get("id"):
            current = []
            groups.append((item["id"], current))
        elif not _made_by_model(item):
            current = None
        elif current is not None and item.get("id"):
            current.append(item["id"])
    return groups


def _torn_groups(before: list[Json], after: list[Json]) -> list[Finding]:
    kept = {item["id"]: i for i, item in enumerate(after) if item.get("id")}
    return [
        Finding((kept[item_id],), "reasoning_removed", f"{item_id} was made with {reasoning}")
        for reasoning, members in _groups(before)
        if reasoning not in kept
        for item_id in members
        if item_id in kept
    ]


class Binding:
    """A provider that ties each thinking block to `system`, `tools` and every message before it.

    `send` a request, get what would be refused. Thinking may go from the front of the history or from all of
    it; what stays must stand behind exactly what it was made behind. Cache marks do not count.
    """

    def __init__(self) -> None:
        self._minted: dict[str, tuple[str, tuple[str, ...]]] = {}

    def send(self, request: Json) -> list[str]:
        body = plain(request)
        state = hashlib.sha256(_canon({"system": _text_list(body.get("system")), "tools": body.get("tools")}))
        thoughts: list[str] = []
        bad: list[str] = []
        for i, message in enumerate(body["messages"]):
            state.update(_canon(message.get("role")))
            for b, block in enumerate(_text_list(message.get("content"))):
                key = block.get("signature") or block.get("data")
                if block.get("type") not in ("thinking", "redacted_thinking") or not key:
                    state.update(_canon(block))
                    continue
                here = (state.hexdigest(), tuple(thoughts))
                made = self._minted.setdefault(key, here)
                ends_alike = not thoughts or made[1][-len(thoughts) :] == tuple(thoughts)
                if made[0] != here[0] or not ends_alike:
                    bad.append(f"{i}.{b}: thinking_bound: made behind another prefix")
                thoughts.append(key)
        return bad


def check_binding(sent_before: Json, sent_after: Json) -> list[str]:
    """Thinking kept in the second request whose prefix is not the one it was first sent or made with."""
    binding = Binding()
    binding.send(sent_before)
    bad = binding.send(sent_after)
    was, now = plain(sent_before), plain(sent_after)
    known = {_thought(b) for m in was["messages"] for b in _text_list(m.get("content"))}
    for i, message in enumerate(now["messages"]):
        fresh = {_thought(b) for b in _text_list(message.get("content"))} - known - {None}
        if fresh and message.get("role") == "assistant":
            if _spoken(now["messages"][:i])[: len(_spoken(was["messages"]))] != _spoken(was["messages"]):
                bad.append(f"{i}: thinking_bound: made in reply to a request that is no prefix of this one")
            break
    return bad


def _thought(block: Json) -> str | None:
    if block.get("type") in ("thinking", "redacted_thinking"):
        return block.get("signature") or block.get("data")
    return None


def _spoken(messages: list[Json]) -> list[bytes]:
    return [_canon([b for b in _text_list(m.get("content")) if _thought(b) is None]) for m in messages]


def _text_list(content: Json) -> list[Json]:
    if content is None:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _canon(value: Json) -> bytes:
    def strip(item: Json) -> Json:
        if isinstance(item, dict):
            return {key: strip(inner) for key, inner in item.items() if key != "cache_control"}
        return [strip(inner) for inner in item] if isinstance(item, list) else item

    return json.dumps(strip(value), sort_keys=True).encode() + b"\n"
