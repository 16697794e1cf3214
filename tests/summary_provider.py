"""The provider of loopback.py, where some requests ask for a summary: those are answered by a script."""

from __future__ import annotations

from typing import Any

from loopback import Loopback
from packlight.testing import Refusal, ScriptedSummariser
from packlight.types import SummaryRequest

Json = Any
STATUS = {"rate_limit": 429, "raises": 500, "timeout": 504}


class SummaryLoopback(Loopback):
    """`script` is that of `ScriptedSummariser`; what fails there fails here with a status. `asked` has the bodies."""

    def __init__(self, *script: str, window_tokens: int = 200_000, **options: Any) -> None:
        super().__init__(window_tokens, **options)
        self.scripted = ScriptedSummariser(*script)
        self.asked: list[Json] = []
        self.summary_window_tokens = 10**9

    def answer(self, wire: str, body: Json) -> tuple[int, Json]:
        system, prompt = _texts(wire, body)
        if " record begins]" not in prompt:
            return super().answer(wire, body)
        self.asked.append(body)
        used = self.count(body)
        if used > self.summary_window_tokens:
            message = f"prompt is too long: {used} tokens > {self.summary_window_tokens} maximum"
            return self.refuse(wire, Refusal(message=message, code=""))
        word = self.scripted.script[min(len(self.scripted.requests), len(self.scripted.script) - 1)]
        room = body.get("max_tokens") or body.get("max_completion_tokens")
        if word in STATUS:
            self.scripted.requests.append(SummaryRequest(system=system, prompt=prompt, max_tokens=room))
            return self.refuse(wire, Refusal(status=STATUS[word], message=word, code=word))
        reply = self.scripted.ask(SummaryRequest(system=system, prompt=prompt, max_tokens=room))
        return 200, _MADE[wire](body["model"], reply, used)


def _texts(wire: str, body: Json) -> tuple[str, str]:
    if wire == "responses":
        return "", str(body.get("input"))
    system = body.get("system", "") if wire == "anthropic" else body["messages"][0].get("content")
    content = body["messages"][-1].get("content")
    return str(system), content if isinstance(content, str) else ""


def _anthropic(model: str, reply: Any, used: int) -> Json:
    content: list[Json] = [{"type": "thinking", "thinking": "Let me see.", "signature": "s"}]
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    if reply.called_tool:
        content.append({"type": "tool_use", "id": "t", "name": "bash", "input": {}})
    return {
        "id": "msg_s",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "max_tokens" if reply.stop_reason == "length" else reply.stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": used, "output_tokens": 700, "cache_read_input_tokens": 5},
    }


_FINISH = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls"}


def _chat(model: str, reply: Any, used: int) -> Json:
    message: Json = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.called_tool:
        function = {"name": "bash", "arguments": "{}"}
        message["tool_calls"] = [{"id": "c", "type": "function", "function": function}]
    finish = _FINISH.get(reply.stop_reason, reply.stop_reason)
    return {
        "id": "chatcmpl-s",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": used, "completion_tokens": 700, "total_tokens": used + 700},
    }


_MADE = {"anthropic": _anthropic, "chat": _chat}
