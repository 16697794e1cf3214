"""A small provider on 127.0.0.1 for the real SDKs: three wires, a context window, and no patience.

It refuses what a provider refuses (broken pairs, thinking behind another prefix, too long a prompt, each in
the provider's own words), answers with scripted tool calls, and remembers every request.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import checker

Json = Any
WIRES = {"/v1/messages": "anthropic", "/v1/chat/completions": "chat", "/v1/responses": "responses"}


class Loopback:
    """Use as a context manager; `url` is what an SDK takes as its base (`/v1` behind it for OpenAI's)."""

    def __init__(self, window_tokens: int, turns: int = 60, chars_per_token: float = 3.3) -> None:
        self.window_tokens, self.turns, self.chars_per_token = window_tokens, turns, chars_per_token
        self.requests: list[Json] = []
        self.refusals: list[str] = []
        self.tokens: list[int] = []
        self.binding = checker.Binding()
        self._answered = 0

    def __enter__(self) -> Self:
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one packet an answer: a second one would wait for the client's delayed ACK
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, kind, text = loopback.respond(self.path.split("?")[0], body)
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                self.wfile.flush()

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def respond(self, path: str, body: Json) -> tuple[int, str, str]:
        """Status, content type and text of the answer."""
        status, answer = self.answer(WIRES[path], body)
        return status, "application/json", json.dumps(answer)

    def count(self, body: Json) -> int:
        text = {key: body.get(key) for key in ("system", "tools", "instructions", "messages", "input")}
        return int(len(json.dumps(text, ensure_ascii=False)) / self.chars_per_token)

    def answer(self, wire: str, body: Json) -> tuple[int, Json]:
        self.requests.append(body)
        wrong = checker.check(body, wire)
        if wire == "anthropic":
            wrong += self.binding.send(body)
        if wrong:
            return self.refuse(wire, wrong[0], "invalid_request")
        used = self.count(body)
        room = body.get("max_tokens") or body.get("max_completion_tokens") or body.get("max_output_tokens") or 0
        if used + room > self.window_tokens:
            if wire == "anthropic":
                return self.refuse(wire, f"prompt is too long: {used} tokens > {self.window_tokens} maximum", "")
            return self.refuse(
                wire,
                f"This model's maximum context length is {self.window_tokens} tokens. However, your "
                f"messages resulted in {used} tokens. Please reduce the length of the messages.",
                "context_length_exceeded",
            )
        self.tokens.append(used)
        self._answered += 1
        return 200, _REPLIES[wire](self._answered, self._answered > self.turns, used)

    def refuse(self, wire: str, message: str, code: str) -> tuple[int, Json]:
        self.refusals.append(message)
        if wire == "anthropic":
            return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        return 400, {"error": {"message": message, "type": "invalid_request_error", "code": code, "param": None}}


def _calls(turn: int) -> list[tuple[str, Json]]:
    """One or two calls a turn, over a handful of files."""
    first = ("read", {"path": f"src/module_{turn % 9}.py"})
    return [first, ("bash", {"command": f"pytest -q tests/test_{turn % 9}.py"})] if turn % 3 == 0 else [first]


def _anthropic(turn: int, done: bool, used: int) -> Json:
    content: list[Json] = [{"type": "thinking", "thinking": f"step {turn}", "signature": f"sig-{turn}"}]
    if done:
        content.append({"type": "text", "text": "All done."})
    else:
        content += [
            {"type": "tool_use", "id": f"toolu_{turn}_{n}", "name": name, "input": arguments}
            for n, (name, arguments) in enumerate(_calls(turn))
        ]
    return {
        "id": f"msg_{turn}",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": content,
        "stop_reason": "end_turn" if done else "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": used // 10,
            "cache_read_input_tokens": used - used // 10,
            "cache_creation_input_tokens": 0,
            "output_tokens": 80,
        },
    }


def _chat(turn: int, done: bool, used: int) -> Json:
    message: Json = {"role": "assistant", "content": "All done." if done else None, "refusal": None}
    if not done:
        message["tool_calls"] = [
            {
                "id": f"call_{turn}_{n}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for n, (name, arguments) in enumerate(_calls(turn))
        ]
    choice = {"index": 0, "message": message, "finish_reason": "stop" if done else "tool_calls", "logprobs": None}
    usage = {
        "prompt_tokens": used,
        "completion_tokens": 80,
        "total_tokens": used + 80,
        "prompt_tokens_details": {"cached_tokens": used // 2},
    }
    return {
        "id": f"chatcmpl-{turn}",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5.6",
        "choices": [choice],
        "usage": usage,
    }


def _responses(turn: int, done: bool, used: int) -> Json:
    output: list[Json] = [{"type": "reasoning", "id": f"rs_{turn}", "summary": [], "encrypted_content": f"gAAA{turn}"}]
    if done:
        text = {"type": "output_text", "text": "All done.", "annotations": []}
        output.append(
            {"type": "message", "id": f"msg_{turn}", "role": "assistant", "status": "completed", "content": [text]}
        )
    else:
        output += [
            {
                "type": "function_call",
                "id": f"fc_{turn}_{n}",
                "call_id": f"call_{turn}_{n}",
                "name": name,
                "arguments": json.dumps(arguments),
                "status": "completed",
            }
            for n, (name, arguments) in enumerate(_calls(turn))
        ]
    usage = {
        "input_tokens": used,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 80,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used + 80,
    }
    return {
        "id": f"resp_{turn}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-5.6",
        "output": output,
        "usage": usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
    }


_REPLIES = {"anthropic": _anthropic, "chat": _chat, "responses": _responses}
