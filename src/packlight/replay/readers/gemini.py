"""Gemini API contents (`[{"role", "parts"}]`): a list of them, a request that holds one, or Gemini CLI's checkpoints
and compression scenarios (`{"history"}`).

Calls often have no id, and responses one that the client made up: what has no pair by id is paired by name, in order.
Thoughts and their signatures have no place in Chat Completions, which the session is given as.
"""

from __future__ import annotations

from ... import jsonio
from ...types import Json
from ..session import Notes, Session, Turn
from .chat_form import in_chat_form
from .claude_window import Block, Window, called, clean_blocks, image, returned
from .sessions import session_of
from .values import Record, first_text, mapping, mappings, string

_LISTS = ("contents", "history")
_ROLES = ("user", "model", "function", "system", None)


def recognise(records: list[Record]) -> bool:
    contents = _contents(records)
    return bool(contents) and all(
        isinstance(c.get("parts"), list) and c.get("role") in _ROLES and "info" not in c for c in contents
    )


def read(records: list[Record], *, name: str, notes: Notes) -> list[Session]:
    """The one conversation, with a call at its end when the last word is not the model's."""
    body = records[0] if records and "parts" not in records[0] else {}
    reader = _Reader(notes)
    for content in _contents(records):
        reader.take(content)
    reader.window.ask()
    segments = in_chat_form([reader.window.segment()], _system(body))
    names, model = (name, body.get("scenarioId")), first_text(body.get("model"))
    return [session_of("gemini", "chat", segments, notes, *names, model=model, head=_head(body))]


def said(content: Json, notes: Notes) -> list[Block]:
    """Text and images of parts, or of plain text; thoughts are left out."""
    if isinstance(content, str):
        return clean_blocks(content)
    blocks: list[Block] = []
    parts = mappings(content) if isinstance(content, list) else [mapping(content)]
    for part in parts:
        data = mapping(part.get("inlineData") or part.get("inline_data"))
        media_type = string(data.get("mimeType") or data.get("mime_type"))
        if part.get("thought") is True or "functionCall" in part or "functionResponse" in part:
            continue
        if isinstance(part.get("text"), str):
            blocks.append({"type": "text", "text": part["text"]})
        elif media_type.startswith("image/"):
            blocks.append(image(media_type, data.get("data")))
        elif part:
            notes.add(f"part with {', '.join(sorted(part)[:2])} left out")
    return clean_blocks(blocks)


def response_text(response: Json) -> str:
    """What a function returned: its text where it is one, else its JSON."""
    if isinstance(response, dict) and len(response) == 1:
        (only,) = response.values()
        if isinstance(only, str):
            return only
    return response if isinstance(response, str) else jsonio.dump(response).decode("utf-8", "replace")


class _Reader:
    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self.window = Window(notes)
        self._round = ""
        self._open: list[tuple[Json, str]] = []
        """Name and id of the last message's calls that wait for a response."""
        self._given_id: dict[str, str] = {}
        """Ids that calls really have."""
        self._calls = 0

    def take(self, content: Record) -> None:
        blocks, parts = said(content.get("parts"), self._notes), mappings(content.get("parts"))
        if content.get("role") != "model":
            results = [
                r for p in parts if "functionResponse" in p and (r := self._response(mapping(p["functionResponse"])))
            ]
            self.window.user([*results, *blocks])
            return
        if not (self._round and self.window.waits_for_user):
            self._round, self._open = f"answer {self._calls} {len(self.window.rounds)}", []
        blocks += [self._call(mapping(p["functionCall"])) for p in parts if "functionCall" in p]
        answer, is_new = self.window.assistant(self._round, blocks)
        if is_new:
            answer.turn = Turn(0)

    def _call(self, call: Record) -> Block:
        given = call.get("id")
        call_id = given if isinstance(given, str) and given not in self._given_id else f"call_{self._calls}"
        if isinstance(given, str):
            self._given_id[given] = call_id
        self._calls += 1
        self._open.append((call.get("name"), call_id))
        return called(call_id, call.get("name"), mapping(call.get("args")))

    def _response(self, response: Record) -> Block | None:
        given, name = response.get("id"), response.get("name")
        call_id = self._given_id.get(given) if isinstance(given, str) else None
        if call_id is None:
            call_id = next((i for n, i in self._open if n == name), None)
        if call_id is None:
            self._notes.add("response to a function that was not called left out")
            return None
        self._open = [(n, i) for n, i in self._open if i != call_id]
        return returned(call_id, response_text(response.get("response")))


def _contents(records: list[Record]) -> list[Record]:
    if len(records) == 1:
        for key in _LISTS:
            if isinstance(records[0].get(key), list):
                return mappings(records[0][key])
    return records


def _system(body: Record) -> str:
    instruction = body.get("systemInstruction") or body.get("system_instruction")
    return "\n\n".join(b["text"] for b in said(mapping(instruction).get("parts", instruction), Notes()) if "text" in b)


def _head(body: Record) -> Record:
    """The functions that were declared, as Chat Completions names them."""
    declared = [
        {k: v for k, v in f.items() if k in ("name", "description", "parameters")}
        for tool in mappings(body.get("tools"))
        for f in mappings(tool.get("functionDeclarations") or tool.get("function_declarations"))
    ]
    return {"tools": [{"type": "function", "function": f} for f in declared] or None}
