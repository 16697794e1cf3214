"""What was taken out is within reach: by reference, by path, by words, and only from its own conversation."""

from __future__ import annotations

import re

import pytest

from engine import body, compactor, frozen, key_of, packlight
from packlight.store import MemoryStore
from store_help import document, put, row, sha
from talk import MANY, WINDOW, WIRES, opening, output, request, turn, turns

every_wire = pytest.mark.parametrize("wire", WIRES)


def compacted(wire, store=None, task="Fix it.", **options):
    made = compactor(wire, window_tokens=WINDOW, store=store, **options)
    c = made.fit(body([*opening(task), *turns(wire, MANY)], wire))
    assert c.report.new_edits
    return made, c


def texts(found):
    return [d.text for d in found]


@every_wire
def test_every_result_is_found_by_its_path(wire):
    """Whether it was cleared alone or folded into a summary with its whole turn."""
    made, c = compacted(wire)
    for n in range(MANY - 10):
        found = packlight.recall(made.store, f"src/file_{n}.py", conversation=c.conversation)
        assert output(n) in texts(found), n
        assert all(d.path == f"src/file_{n}.py" and d.tool == "Read" for d in found)


@every_wire
def test_every_reference_answers(wire):
    made, c = compacted(wire)
    refs = set(re.findall(r"\bref ([0-9a-f]{12,})", frozen(c.request)))
    assert refs
    for ref in refs:
        for query in (ref, f"ref {ref}", ref.upper(), ref[:7], f"  {ref}\n", f"[cleared Read; ref {ref}]"):
            found = packlight.recall(made.store, query, conversation=c.conversation)[0]
            assert found.ref == ref and found.text


@every_wire
def test_words_find_the_text(wire):
    made, c = compacted(wire)
    found = packlight.recall(made.store, "value_7_31", conversation=c.conversation)
    assert output(7) in texts(found)
    assert len(packlight.recall(made.store, "file_7.py value_7_31", limit=1)) == 1


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
def test_restore_keeps_the_form_of_a_text(wire):
    """Alone or in a list, it is the same text to the provider, and another value to whoever wrote it."""
    made, (call, alone) = compactor(wire, window_tokens=WINDOW), turn(wire, 0)
    listed = {**alone, "content": [_text(output(0))]}
    if wire == "anthropic":
        listed = {**alone, "content": [{**alone["content"][0], "content": [_text(output(0))]}]}
    given = body([*opening(), call, alone, call, listed, call, alone, *turns(wire, MANY, start=1)], wire)
    c = made.fit(given)
    assert c.report.new_edits and frozen(packlight.restore(c.request, made.store, format=wire)) == frozen(given)


def _told(wire, place):
    """A message that holds a text at this place, and not where others hold theirs."""
    text = output(777)
    if wire == "responses":
        own = {
            "mcp_call": {"server_label": "s", "name": "ask", "arguments": "{}", "output": text},
            "file_search_call": {"queries": ["q"], "results": [{"filename": "f", "text": text}]},
            "code_interpreter_call": {"code": "1", "container_id": "c", "outputs": [{"type": "logs", "logs": text}]},
        }
        return [{"type": place, "id": "x1", "status": "completed", **own[place]}]
    page = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}
    held = {
        "document": page,
        "content document": {"type": "document", "source": {"type": "content", "content": [_text(text)]}},
        "search_result": {"type": "search_result", "source": "s", "title": "t", "content": [_text(text)]},
    }
    if block := held.get(place):
        shown = {"role": "user", "content": [_text("See this."), block]}
        return [shown, {"role": "assistant", "content": "Seen."}, {"role": "user", "content": "Go on."}]
    if block := held.get(place.removesuffix(" in a result")):
        _, answer = turn(wire, 777, text="")
        answer["content"][0]["content"] = [block]
        return [turn(wire, 777)[0], answer]
    if place == "thinking":
        return [{"role": "assistant", "content": [{"type": place, "thinking": text, "signature": "s"}, _text("So.")]}]
    own = {
        "bash_code_execution": {"type": "bash_code_execution_result", "stdout": text, "stderr": "", "return_code": 0},
        "web_fetch": {"type": "web_fetch_result", "url": "https://example.com", "content": page},
        "text_editor_code_execution": {"type": "text_editor_code_execution_view_result", "content": text},
    }
    call = {"type": "server_tool_use", "id": "srv1", "name": place, "input": {}}
    result = {"type": f"{place}_tool_result", "tool_use_id": "srv1", "content": own[place]}
    return [{"role": "assistant", "content": [call, result, _text("Done.")]}]


def _text(text):
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("wire", "place"),
    [
        *[("responses", kind) for kind in ("mcp_call", "file_search_call", "code_interpreter_call")],
        *[("anthropic", kind) for kind in ("bash_code_execution", "web_fetch", "text_editor_code_execution")],
        *[("anthropic", kind) for kind in ("document", "content document", "search_result", "thinking")],
        *[("anthropic", f"{kind} in a result") for kind in ("document", "content document", "search_result")],
    ],
)
def test_text_is_found_wherever_it_stood(wire, place):
    made = compactor(wire, window_tokens=WINDOW)
    c = made.fit(body([*opening(), *turns(wire, 3), *_told(wire, place), *turns(wire, MANY, start=3)], wire))
    assert c.report.new_edits and output(777) not in frozen(c.request)
    assert output(777) in texts(packlight.recall(made.store, "value_777_31", conversation=c.conversation))


def test_thinking_that_goes_with_an_edit_before_it_is_found():
    """On models that bind it: a block taken out of a message that stays."""
    made, thought = compactor("anthropic", window_tokens=WINDOW), output(777)
    last = turn("anthropic", 778)
    last[0]["content"].insert(0, {"type": "thinking", "thinking": thought, "signature": "s"})
    c = made.fit(body([*opening(), *turns("anthropic", MANY), *last], "anthropic"))
    assert any(e.layer == "laws" and len(e.start) == 2 for e in c.report.new_edits)
    assert thought in texts(packlight.recall(made.store, "value_777_31", conversation=c.conversation))


def test_path_may_be_its_end_or_absolute():
    made, _ = compacted("anthropic")
    for query in ("file_3.py", "src/file_3.py", "./src/file_3.py", "/home/me/src/file_3.py"):
        assert output(3) in texts(packlight.recall(made.store, query)), query
    for query in ("e_3.py", "other/file_3.py"):
        assert not any(d.path.endswith(query) for d in packlight.recall(made.store, query))


def test_folder_may_be_named_by_its_path(tmp_path):
    compacted("chat", tmp_path / "s")
    assert packlight.recall(tmp_path / "s", "src/file_3.py") and packlight.recall(str(tmp_path / "s"), "src/file_3.py")


def test_conversations_are_apart(tmp_path):
    """Recall answers from its own conversation; without a name from all of the owner's."""
    _, one = compacted("chat", tmp_path / "s", task="First.")
    store = packlight.open_store(tmp_path / "s")
    other = compactor("chat", window_tokens=WINDOW, store=store)
    secret = "\n".join(f"secret_{n} = {n}" for n in range(300))
    two = other.fit(body([*opening("Second."), *turns("chat", 12, text=secret), *turns("chat", 50)], "chat"))
    assert one.conversation != two.conversation
    assert packlight.recall(store, "secret_7", conversation=two.conversation)
    assert packlight.recall(store, "secret_7")
    assert packlight.recall(store, "secret_7", conversation=one.conversation) == []
    refs = [e.ref for e in two.report.edits if e.ref]
    assert not any(packlight.recall(store, ref, conversation=one.conversation) for ref in refs)


def test_conversation_may_be_named():
    made = compactor("chat", window_tokens=WINDOW)
    c = made.fit(request("chat"), conversation="ticket-12")
    assert c.conversation == "ticket-12"
    later = made.fit({**request("chat"), key_of("chat"): [*request("chat")["messages"], *turns("chat", 1, start=99)]})
    assert later.conversation == "ticket-12", "it keeps the name of its first batch"
    assert packlight.recall(made.store, "src/file_3.py", conversation="ticket-12")
    assert packlight.recall(made.store, "src/file_3.py", conversation="ticket-13") == []


def test_owners_are_apart():
    made, _ = compacted("chat", MemoryStore(), owner="ann")
    assert packlight.recall(made.store, "src/file_3.py", owner="ann")
    assert packlight.recall(made.store, "src/file_3.py", owner="bob") == []
    assert packlight.recall(made.store, "src/file_3.py") == []


@pytest.fixture
def held():
    store = MemoryStore()
    put(store, "解析器报告了错误，连接被拒绝", "commit deadbeef0123 broke it", "café au lait", "half \ud83d a pair")
    return store


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("拒绝", "解析器"),
        ("解析", "解析器"),
        ("错误 连接", "解析器"),
        ("deadbeef0123", "commit"),
        ("deadbeef", "commit"),
        ("CAFÉ", "café"),
        ("pair", "half"),
    ],
)
def test_any_words(query, expected, held):
    """Chinese words of two characters; a commit that only looks like a reference."""
    assert packlight.recall(held, query, owner="o")[0].text.startswith(expected)


@pytest.mark.parametrize("query", ["", "  ", "\n", "nothing-like-it", '"', "(", "*", "-", "0" * 64, "NEAR(xy zz)"])
def test_what_is_nowhere_is_not_found(query, held):
    assert packlight.recall(held, query, owner="o") == []


def test_reference_comes_before_words(held):
    """A reference that also stands in another text means what it refers to."""
    text = "what the reference is for"
    ref = document(text).ref
    data = b"original"
    batch = row("b9", data, key=b"k9")
    held.put_batch(batch, {sha(data): data}, [document(text), document(f"it mentions {ref} only")])
    assert texts(packlight.recall(held, ref, owner="o")) == [text]


def test_limit_holds():
    made, _ = compacted("chat")
    assert len(packlight.recall(made.store, "value", limit=3)) <= 3
    assert len(packlight.recall(made.store, "src", limit=2)) <= 2


def test_store_that_can_not_be_read_raises(tmp_path):
    made, _ = compacted("chat", tmp_path / "s")
    made.store.close()
    (tmp_path / "s" / "store.db").write_bytes(b"rubbish" * 1_000)
    with pytest.raises(packlight.StoreError) as raised:
        packlight.recall(tmp_path / "s", "value")
    assert "\n" not in str(raised.value)
