"""`packlight.recall_tool`: what was taken out comes back to the model, from its own conversation, in pages."""

from __future__ import annotations

import json
import re

import pytest

import checker
from engine import MODELS, body, compactor, frozen, packlight
from loopback import Loopback
from packlight.store import MemoryStore
from sdk_agents import HEADS, client_of, create, key_of, read_reply, results_of
from store_help import put
from talk import MANY, WINDOW, WIRES, opening, output, turns

every_wire = pytest.mark.parametrize("wire", WIRES)


def compacted(wire="chat", **options):
    made = compactor(wire, window_tokens=WINDOW, **options)
    c = made.fit(body([*opening(), *turns(wire, MANY)], wire))
    assert c.report.new_edits
    return made, c


@every_wire
def test_definition_is_that_of_its_api(wire):
    definition = packlight.recall_tool(wire).definition
    function = definition.get("function", definition)
    schema = definition.get("input_schema") or function["parameters"]
    assert function["name"] == packlight.recall_tool(wire).name == "recall"
    assert schema["required"] == ["query"] and set(schema["properties"]) == {"query", "page"}
    assert checker.check({**body(opening(), wire), "tools": [definition]}, wire) == []


@every_wire
def test_reference_path_and_words_are_answered(wire):
    made, c = compacted(wire)
    tool = packlight.recall_tool(wire, made, c.conversation)
    ref = re.search(r"\bref ([0-9a-f]{12,})", frozen(c.request))[1]
    document = packlight.recall(made.store, ref)[0]
    assert document.text[:15_000] in tool({"query": ref})
    assert output(3) in tool({"query": "src/file_3.py"})
    assert output(7) in tool(json.dumps({"query": "value_7_31"}))
    assert tool.handle({"query": "value_7_31"}) == tool({"query": "value_7_31"})


def test_own_conversation_only():
    store = MemoryStore()
    made, c = compacted(store=store)
    other = packlight.recall_tool("chat", made, "another")
    assert "Nothing was found" in other({"query": "src/file_3.py"})
    assert output(3) in packlight.recall_tool("chat", store)({"query": "src/file_3.py"})
    other.conversation = c.conversation
    assert output(3) in other({"query": "src/file_3.py"})
    other.conversation = ""  # as `Compaction.conversation` is before anything was taken out
    assert "Nothing was found" in other({"query": "src/file_3.py"})


def test_owners_are_apart():
    store = MemoryStore()
    made, _ = compacted(store=store, owner="ann")
    assert output(3) in packlight.recall_tool("chat", made)({"query": "src/file_3.py"})
    assert "Nothing was found" in packlight.recall_tool("chat", store)({"query": "src/file_3.py"})


def test_pages_hold_everything(tmp_path):
    text = "\n".join(f"needle line {n}" for n in range(6_000))
    store = packlight.open_store(tmp_path / "s")
    put(store, text)
    store.close()
    tool = packlight.recall_tool("chat", tmp_path / "s")
    tool.owner = "o"
    pages, page = [], 1
    while True:
        answer = tool({"query": "needle", "page": page})
        assert len(answer) <= 20_000
        whole, _, rest = answer.partition("\n\n[page ")
        pages.append(whole)
        if not rest:
            break
        page += 1
        assert f"page {page} goes on" in rest
    assert "".join(pages).partition("\n")[2] == text and page > 4
    assert tool({"query": "needle", "page": page + 1}) == f"There is no page {page + 1}: the answer has {page}."


def test_several_finds_are_listed():
    made, _ = compacted()
    answer = packlight.recall_tool("chat", made)({"query": "value"})
    assert re.match(r"\d+ found:\nref [0-9a-f]{12}: Read src/file_\d+.py \(", answer)
    assert len(answer) <= 20_000


@pytest.mark.parametrize(
    "arguments",
    [None, 7, [], "", "no json", "[]", b"\xff", "[" * 100_000, {}, {"query": 7}, {"query": " "}, {"query": None}]
    + [{"query": "value", "page": page} for page in (0, -1, "x", 1.5, True, [], 10**30, "9" * 5_000)],
    ids=lambda value: repr(value)[:30],
)
def test_bad_arguments_get_one_line(arguments):
    made, _ = compacted()
    answer = packlight.recall_tool("chat", made)(arguments)
    assert "\n" not in answer and 10 < len(answer) < 300
    assert answer.startswith(("recall failed", "There is no page"))


@pytest.mark.parametrize("query", ['"', "(", "*", "0" * 64, "NEAR(x y)", "\0", "\ud800", "a" * 100_000, "value\n%s"])
def test_any_text_is_a_query(query):
    made, _ = compacted()
    answer = packlight.recall_tool("chat", made)({"query": query})
    assert answer.encode() and len(answer) <= 20_000


def test_page_may_be_a_text():
    made, _ = compacted()
    tool = packlight.recall_tool("chat", made)
    assert tool({"query": "value", "page": "2"}) == tool({"query": "value", "page": 2.0}) != tool({"query": "value"})


def test_lone_surrogates_can_be_sent():
    store = MemoryStore()
    put(store, "half \ud83d a pair")
    tool = packlight.recall_tool("chat", store)
    tool.owner = "o"
    assert tool({"query": "pair"}).encode().endswith(b"half ? a pair")


def test_store_that_can_not_be_read_is_told(tmp_path):
    made, _ = compacted(store=tmp_path / "s")
    made.store.close()
    (tmp_path / "s" / "store.db").write_bytes(b"rubbish" * 1_000)
    answer = packlight.recall_tool("chat", tmp_path / "s")({"query": "value"})
    assert answer.startswith("recall failed: ") and "\n" not in answer


def test_without_a_store_it_says_so():
    assert "without a store" in packlight.recall_tool("chat")({"query": "value"})


def test_unknown_format_is_told():
    with pytest.raises(packlight.UnknownFormat):
        packlight.recall_tool("gemini")


# --- in a loop -------------------------------------------------------------------------------------------------------


class Forgetful(Loopback):
    """A model that asks for what was taken out: at every fourth turn it recalls the oldest file."""

    def answer(self, wire, sent):
        status, reply = super().answer(wire, sent)
        if status == 200 and self._answered % 4 == 0 and self._answered <= self.turns:
            _as_recall(wire, reply, {"query": "src/module_1.py line of turn 0"})
        return status, reply


def _as_recall(wire, reply, arguments):
    if wire == "anthropic":
        block = next(b for b in reply["content"] if b["type"] == "tool_use")
        block.update(name="recall", input=arguments)
    elif wire == "chat":
        call = reply["choices"][0]["message"]["tool_calls"][0]
        call["function"] = {"name": "recall", "arguments": json.dumps(arguments)}
    else:
        call = next(i for i in reply["output"] if i["type"] == "function_call")
        call.update(name="recall", arguments=json.dumps(arguments))


def tools_of(wire, recall):
    if wire == "anthropic":
        return [*HEADS[wire]["tools"], recall.definition]
    wrap = (lambda f: {"type": "function", "function": f}) if wire == "chat" else (lambda f: {"type": "function", **f})
    return [*(wrap({"name": n, "parameters": {"type": "object"}}) for n in ("read", "bash")), recall.definition]


@every_wire
def test_loop_recalls_what_was_taken_out(wire, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    recalled = []
    with (
        Forgetful(16_000, turns=50) as provider,
        packlight.wrap(client_of(wire, provider.url), window_tokens=16_000, conversation="task-1") as client,
    ):
        recall = packlight.recall_tool(wire, client)
        head = {"model": MODELS[wire], **HEADS[wire], "tools": tools_of(wire, recall)}
        messages, done = opening("Fix it."), False
        while not done:
            said, calls = read_reply(wire, create(wire, client)(**head, **{key_of(wire): messages}))
            results = []
            for id, name, arguments in calls:
                if name == recall.name:
                    recalled.append(recall(arguments))
                    results.append((id, recalled[-1]))
                else:
                    results.append((id, "\n".join(f"{arguments} line {n} of {len(messages)}" for n in range(60))))
            messages += said + results_of(wire, results)
            done = not calls
    assert provider.refusals == [] and len(provider.requests) == 51
    assert recall.conversation == "task-1"
    assert "Nothing was found" in recalled[0]
    assert "src/module_1.py" in recalled[-1] and "line 59 of" in recalled[-1]
