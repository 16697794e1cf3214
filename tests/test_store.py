"""The store: the same promises in memory and in a folder, and what a folder promises besides."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import compactor, frozen, key_of, packlight
from packlight.errors import NotFound, StoreError
from packlight.store import BatchRow, JournalOnly, MemoryStore, Store, open_store, text_hash
from store_help import document, files_under, found, put, row, sha
from talk import WINDOW, WIRES, begins_with, copied, output, request, sent, turn

DAY_SECONDS = 86_400.0
SECRET = "BRAVE_SEARCH_API_KEY=BSA0000000000000000"
TWINS = ("text 44519985", "text 46698260")
"""Two texts whose sha256 begin with the same 12 digits, 20e327404bae."""
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = open_store(None if request.param == "memory" else tmp_path / "store")
    yield store
    store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


# Batches.


def test_committed_batch_comes_back(store: Store) -> None:
    batch = row("b1", b"original", body=b"[1]" * 1_000)
    assert store.put_batch(batch, {sha(b"original"): b"original"}) == batch
    assert store.batch("b1") == batch
    assert store.batches_at("o", [b"other", b"key"]) == [batch]
    assert store.batches_with_result("o", {b"result"}) == [batch]
    assert store.blob(sha(b"original")) == b"original"


def test_batches_come_in_commit_order(store: Store) -> None:
    first = put(store, id="z")
    second = put(store, id="a", parent="z")
    third = put(store, id="m", parent="a", key=first.key)
    keys = {bytes([n]) for n in range(200)} | {first.key, second.key}
    assert store.batches_at("o", keys) == [first, second, third]
    assert store.batches_at("o", list(keys)) == [first, second, third]


def test_other_owners_see_nothing(store: Store) -> None:
    put(store, "a text of o", id="b1", key=b"key")
    assert store.batches_at("p", [b"key"]) == []
    assert store.batches_with_result("p", [b"result"]) == []
    assert store.documents(conversation=None, owner="p") == []
    assert store.search("text", conversation=None, owner="p") == []
    with pytest.raises(NotFound):
        store.document(text_hash("a text of o")[:12], conversation=None, owner="p")


def test_first_commit_wins(store: Store) -> None:
    winner = put(store, "won", id="w", key=b"early")
    loser = row("l", b"lost", key=b"late")
    assert store.put_batch(loser, {sha(b"lost"): b"lost"}, [document("lost")], chain=[b"early", b"late"]) == winner
    assert store.batch("l") is None
    assert found(store, "lost") == []
    with pytest.raises(NotFound):
        store.blob(sha(b"lost"))


def test_own_key_always_counts_in_the_race(store: Store) -> None:
    winner = put(store, id="w", key=b"same")
    assert put(store, id="l", key=b"same") == winner


def test_forks_and_children_do_not_race(store: Store) -> None:
    first = put(store, id="1", key=b"a")
    fork = row("2", key=b"b")
    assert store.put_batch(fork, chain=[b"x", b"b"]) == fork
    child = row("3", parent="1", key=b"c")
    assert store.put_batch(child, chain=[b"a", b"c"]) == child
    assert store.put_batch(row("4", parent="1", key=b"c", owner="p"), chain=[b"c"]).id == "4"
    assert store.batches_at("o", {b"a", b"b", b"c"}) == [first, fork, child]


def test_same_batch_twice_is_one(store: Store) -> None:
    batch = put(store, "text", id="1")
    assert put(store, "text", id="1", body=b"changed") == batch
    assert len(store.documents(conversation="c", owner="o")) == 1


@pytest.mark.parametrize(
    "batch",
    [row("b", b"never given"), row("b", parent="never committed")],
    ids=["original", "parent"],
)
def test_batch_with_something_missing_is_refused(store: Store, batch: BatchRow) -> None:
    with pytest.raises(StoreError, match="not in the store"):
        store.put_batch(batch, {}, [document("text")])
    assert store.batch("b") is None
    assert store.documents(conversation=None, owner="o") == []


def test_original_given_before_need_not_be_given_again(store: Store) -> None:
    store.put_batch(row("1", b"data"), {sha(b"data"): b"data"})
    again = row("2", b"data", parent="1")
    assert store.put_batch(again) == again


def test_mistakes_of_the_caller_are_told(store: Store) -> None:
    with pytest.raises(ValueError, match="not named by its sha256"):
        store.put_batch(row("b", b"data"), {sha(b"data"): b"other"})
    with pytest.raises(ValueError, match="not among the batch's originals"):
        store.put_batch(row("b"), {sha(b"data"): b"data"})
    with pytest.raises(ValueError, match="does not belong to its text"):
        store.put_batch(row("b"), {}, [document("text", ref="0123456789ab")])
    with pytest.raises(ValueError, match="say what to purge"):
        store.purge()


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(ANY_TEXT, min_size=1, max_size=4, unique=True), name=ANY_TEXT, blob=st.binary(max_size=2_000))
def test_any_text_and_any_name_come_back(store: Store, texts: list[str], name: str, blob: bytes) -> None:
    store.purge(all=True)
    names = dict.fromkeys(("id", "owner", "conversation"), name)
    batch = row(originals=(sha(blob),), **names)  # type: ignore[arg-type]
    batch = replace(batch, originals=(sha(blob),))
    documents = [document(t, name, kind=name, tool=name, path=name, call_id=name) for t in texts]
    assert store.put_batch(batch, {sha(blob): blob}, documents) == batch
    store.put_usage(b"k", blob, owner=name, conversation=name)
    store.put_fact(name, blob)
    assert store.batch(name) == batch
    assert store.blob(sha(blob)) == blob
    assert store.usage_at([b"k"], owner=name) == {b"k": blob}
    assert store.fact(name) == blob
    assert store.documents(conversation=name, owner=name) == documents[::-1]
    for one in documents:
        assert store.document(one.ref, conversation=name, owner=name) == one
        assert isinstance(store.search(one.text, conversation=name, owner=name), list)


# Recall.


def test_beginning_of_a_reference_is_enough(store: Store) -> None:
    put(store, "text 859", "text 1")
    ref = text_hash("text 859")
    for typed in (ref[:6], ref[:12], ref, f"  {ref[:12].upper()} "):
        assert store.document(typed, conversation="c", owner="o").text == "text 859"


@pytest.mark.parametrize("ref", ["", "b30a8", "no hex", "0" * 12, "0" * 65, "../../etc/passwd", "b30a89'--", "\ud83d"])
def test_reference_that_names_nothing_is_not_found(store: Store, ref: str) -> None:
    put(store, "text 859")
    with pytest.raises(NotFound):
        store.document(ref, conversation="c", owner="o")
    with pytest.raises(NotFound):
        store.blob(ref)


def test_ambiguous_beginning_names_the_candidates(store: Store) -> None:
    put(store, "text 859", "text 4460")
    with pytest.raises(NotFound, match="several") as caught:
        store.document("b30a89", conversation="c", owner="o")
    assert all(text_hash(text)[:12] in str(caught.value) for text in ("text 859", "text 4460"))


def test_clashing_references_grow_longer(store: Store) -> None:
    put(store, TWINS[0])
    short, longer = store.ref(TWINS[0], owner="o"), store.ref(TWINS[1], owner="o")
    assert (short, len(longer)) == ("20e327404bae", 14)
    store.put_batch(row("b2"), {}, [document(TWINS[1], ref=longer)])
    assert [store.document(ref, conversation="c", owner="o").text for ref in (short, longer)] == list(TWINS)


def test_recall_stays_in_its_conversation(store: Store) -> None:
    put(store, "shared words one", conversation="c", id="1")
    put(store, "shared words two", conversation="d", id="2")
    ref = text_hash("shared words one")[:12]
    with pytest.raises(NotFound):
        store.document(ref, conversation="d", owner="o")
    assert found(store, "shared", "d") == ["shared words two"]
    assert sorted(found(store, "shared", None)) == ["shared words one", "shared words two"]
    assert store.document(ref, conversation=None, owner="o").conversation == "c"


def test_every_one_of_many_documents_is_reachable(store: Store) -> None:
    documents = [document(f"output {n}", tool="bash", path=f"/repo/src/m{n}.py", ordinal=n) for n in range(64)]
    store.put_batch(row(), {}, documents)
    listed = [store.documents(conversation="c", owner="o", limit=12, offset=start) for start in range(0, 64, 12)]
    assert [one for page in listed for one in page] == documents[::-1]


def test_listing_by_path_and_tool(store: Store) -> None:
    paths = ["/repo/src/auth.py", "/repo/src/noauth.py", "C:\\repo\\src\\auth.py", "auth.py"]
    documents = [document(f"text {n}", path=path, tool=f"tool{n}") for n, path in enumerate(paths)]
    store.put_batch(row(), {}, documents)

    def paths_for(**wanted: str) -> list[str]:
        return sorted(one.path for one in store.documents(conversation="c", owner="o", **wanted))  # type: ignore[arg-type]

    assert paths_for(path="src/auth.py") == ["/repo/src/auth.py", "C:\\repo\\src\\auth.py"]
    assert paths_for(path="./auth.py") == sorted([paths[0], paths[2], paths[3]])
    assert paths_for(path="/repo/src/auth.py") == ["/repo/src/auth.py", "auth.py"]
    assert paths_for(path="") == paths_for(path="%") == []
    assert paths_for(tool="tool1") == ["/repo/src/noauth.py"]


def test_same_text_at_two_places_is_listed_twice_and_found_once(store: Store) -> None:
    store.put_batch(row(), {}, [document("same words", ordinal=n, call_id="reused") for n in (1, 2)])
    assert [one.ordinal for one in store.documents(conversation="c", owner="o")] == [2, 1]
    assert found(store, "same") == ["same words"]
    assert store.document(text_hash("same words"), conversation="c", owner="o").ordinal == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("AuthError", "code"),
        ("autherror RAISE", "code"),
        ("src/auth.py", "code"),
        ("get_user_name", "code"),
        ("user", "code"),
        ("authenti", "code"),  # nothing has the whole word: its beginning will do
        ("authentication zebra", "code"),  # nothing has both: one will do
        ("压缩", "chinese"),
        ("缩率", "chinese"),
        ("率", "chinese"),
        ("上下文压缩率", "chinese"),
        ("压缩v2", "chinese"),
        ("カタカ", "japanese"),
        ("ＦＵＬＬ", "japanese"),
        ("straße", "german"),
        ("STRASSE", "german"),
        ("toolu_01", "german"),
    ],
)
def test_search_finds(store: Store, words: str, expected: str) -> None:
    texts = {
        "code": "src/auth.py:3: def get_user_name(): raise AuthError('authentication')",
        "chinese": "上下文压缩率 v2 很高",
        "japanese": "カタカナ full",
        "german": "Straße",
        "other": "nothing of the kind: src auth, user, 压 缩, error",
    }
    documents = [document(text, call_id="toolu_01" if name == "german" else "") for name, text in texts.items()]
    store.put_batch(row(), {}, documents)
    assert texts[expected] in found(store, words)


def test_search_wants_neighbours_in_order(store: Store) -> None:
    put(store, "user_name", "name of the user", "压 and 缩", "缩压")
    assert found(store, "user_name") == ["user_name"]
    assert found(store, "压缩") == []


def test_search_puts_the_better_first(store: Store) -> None:
    put(store, "timeout " + "filler words here " * 50, "timeout timeout timeout", "nothing")
    assert found(store, "timeout")[0] == "timeout timeout timeout"
    assert len(store.search("timeout", conversation="c", owner="o", limit=1)) == 1


@pytest.mark.parametrize(
    "words",
    [
        '"*(',
        'a" OR "b',
        "NEAR(a b, 3)",
        "NOT",
        "AND OR NOT",
        "text:",
        "col : x",
        "-a",
        "^a",
        "{a b}:c",
        "a*",
        "",
        " ",
        "\0",
        "\ud83d",
        "🎉",
        "%",
        "'",
        "''; DROP TABLE documents",
        "(" * 5_000,
        "word " * 5_000,
        "a" * 100_000,
        "压" * 10_000,
    ],
)
def test_no_query_is_syntax(store: Store, words: str) -> None:
    put(store, "harmless line")
    assert found(store, words) == []
    assert found(store, "line") == ["harmless line"]


def test_snippet_shows_the_hit(store: Store) -> None:
    lines = [f"line {n} with something" for n in range(2_000)]
    lines[1_500] = "here is THE_Needle of it"
    put(store, "\n".join(lines))
    [(_, snippet)] = store.search("the_needle", conversation="c", owner="o")
    assert "THE_Needle" in snippet
    assert len(snippet) < 600


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=ANY_TEXT, word=st.text(st.sampled_from("abcXYZ019压缩率のカ한글ไทย"), min_size=1, max_size=8), after=ANY_TEXT
)
def test_word_between_blanks_is_always_found(store: Store, before: str, word: str, after: str) -> None:
    store.purge(all=True)
    text = f"{before} {word} {after}"
    put(store, text)
    assert found(store, word) == [text]


def test_both_stores_find_the_same(folder: Path) -> None:
    stores: list[Store] = [MemoryStore(), open_store(folder)]
    generator = random.Random(7)
    words = ["auth", "user_name", "src/a.py", "压缩", "率", "timeout", "E0308", "the"]
    texts = {" ".join(generator.choices(words, k=6)) + f" {n}" for n in range(60)}
    for store in stores:
        put(store, *sorted(texts))
    for query in [*words, "auth 压缩", "the timeout E0308", "tim", "nothing"]:
        first, second = (
            {hit.text for hit, _ in s.search(query, conversation="c", owner="o", limit=99)} for s in stores
        )
        assert first == second
    stores[1].close()


# Usage and facts.


def test_usage_and_facts_are_remembered(store: Store) -> None:
    store.put_usage(b"k1", b"{}", owner="o", conversation="c")
    store.put_usage(b"k1", b"{1}", owner="o", conversation="c")
    store.put_usage(b"k2", b"{2}", owner="o", conversation="c")
    many = [n.to_bytes(2, "big") for n in range(3_000)]
    assert store.usage_at([*many, b"k1", b"k2"], owner="o") == {b"k1": b"{1}", b"k2": b"{2}"}
    assert store.usage_at([b"k1"], owner="p") == {}
    assert store.fact("window") is None
    store.put_fact("window", b"1")
    store.put_fact("window", b"2")
    assert store.fact("window") == b"2"


# Forgetting.


def test_purge_of_a_conversation_leaves_the_others(store: Store) -> None:
    put(store, SECRET, "in both", id="1", conversation="c")
    kept = put(store, "in both", "only here", id="2", conversation="d")
    store.put_usage(b"u", SECRET.encode(), owner="o", conversation="c")
    assert found(store, "both") == ["in both"]
    stats = store.purge(conversation="c")
    assert (stats.conversations, stats.batches, stats.documents) == (1, 1, 2)
    assert stats.bytes_after < stats.bytes_before
    assert store.batches_at("o", {b"key of 1", b"key of 2"}) == [kept]
    assert store.usage_at([b"u"], owner="o") == {}
    assert found(store, "BRAVE", None) == []
    assert sorted(found(store, "both here", None)) == ["in both", "only here"][: len(found(store, "both here", None))]
    assert found(store, "both", "d") == ["in both"]
    assert store.blob(kept.originals[0]) == b"original of in both"


def test_purge_by_owner_leaves_the_same_name_of_others(store: Store) -> None:
    put(store, "mine", id="1", owner="o")
    put(store, "theirs", id="2", owner="p")
    assert store.purge(conversation="c", owner="o").conversations == 1
    assert [one.text for one in store.documents(conversation=None, owner="p")] == ["theirs"]


def test_old_conversations_are_purged_by_their_last_use(store: Store) -> None:
    put(store, "old", id="1", conversation="old", created_seconds=0)
    put(store, "began long ago", id="2", conversation="used", created_seconds=0)
    store.put_usage(b"u", b"{}", owner="o", conversation="used", now_seconds=9 * DAY_SECONDS)
    put(store, "parent", id="3", conversation="parent", created_seconds=0)
    put(store, "child", id="4", conversation="child", parent="3", created_seconds=9 * DAY_SECONDS)
    assert store.purge(keep_days=2, now_seconds=10 * DAY_SECONDS).conversations == 1
    assert sorted(one.text for one in store.documents(conversation=None, owner="o")) == [
        "began long ago",
        "child",
        "parent",
    ]


def test_what_builds_on_a_purged_batch_goes_too(store: Store) -> None:
    put(store, "a", id="1", conversation="c")
    put(store, "b", id="2", conversation="d", parent="1")
    put(store, "c", id="3", conversation="d", parent="2")
    put(store, "d", id="4", conversation="d")
    store.purge(conversation="c")
    assert [store.batch(id) is not None for id in "1234"] == [False, False, False, True]


def test_purge_to_a_size_takes_the_least_used(store: Store) -> None:
    blob = random.Random(1).randbytes(400_000)
    for n in range(5):
        original = blob + bytes([n])
        batch = row(str(n), original, conversation=f"c{n}", key=bytes([n]), created_seconds=float(n))
        store.put_batch(batch, {sha(original): original})
    stats = store.purge(max_bytes=1_500_000)
    assert stats.bytes_after <= 1_500_000
    assert [store.batch(str(n)) is not None for n in range(5)] == [False, False, True, True, True]
    assert store.purge(max_bytes=0).conversations == 3


def test_purged_numbers_are_not_taken_for_new_rows(store: Store) -> None:
    put(store, id="1", key=b"k")
    assert len(store.batches_at("o", [b"k"])) == 1
    store.purge(all=True)
    assert store.batches_at("o", [b"k"]) == []
    assert put(store, "new", id="2", key=b"k").id == "2"
    assert [batch.id for batch in store.batches_at("o", [b"k"])] == ["2"]


def test_bounded_memory_forgets_the_least_used() -> None:
    store = MemoryStore(max_bytes=3_000)
    for n in range(6):
        put(store, f"{n}" * 1_000, id=str(n), conversation=f"c{n}", created_seconds=float(n), key=bytes([n]))
    assert [store.batch(str(n)) is not None for n in range(6)] == [False] * 5 + [True]
    big = put(store, "x" * 9_000, id="big", parent="5", conversation="big", created_seconds=9.0, key=b"b")
    assert store.batch("5") and store.batches_at("o", [b"b"]) == [big]


def test_owners_are_those_whose_content_is_kept(store: Store) -> None:
    assert store.owners() == []
    for owner in ("b", "a", "\ud83d"):
        store.put_batch(row(id=owner, owner=owner))
    assert store.owners() == ["a", "b", "\ud83d"]


# A store that keeps the edits and nothing of what they took out.


@pytest.mark.parametrize("wire", WIRES)
def test_journal_only_keeps_edits_and_no_content(wire: str, store: Store, tmp_path: Path) -> None:
    """What was taken out is in no file; edits are made again from the full history, in a new process too."""
    kept, given = JournalOnly(store), request(wire)
    c = compactor(wire, window_tokens=WINDOW, store=kept, policy="nano").fit(given)
    assert c.report.new_edits and c.report.error is None and frozen(c.restore()) == frozen(given)
    longer = {**given, key_of(wire): [*given[key_of(wire)], *turn(wire, 99)]}
    again = compactor(wire, window_tokens=WINDOW, store=JournalOnly(store)).fit(longer, recorded_only=True)
    assert begins_with(sent(again, wire), sent(c, wire)) and again.report.error is None
    gone = output(3).splitlines()[17]
    assert gone in frozen(given) and gone not in frozen(c.request)
    assert not any(gone.encode() in data for data in files_under(tmp_path).values())
    assert kept.search(gone, conversation=None, owner="") == store.search(gone, conversation=None, owner="") == []
    assert kept.documents(conversation=None, owner="") == store.documents(conversation=None, owner="") == []


@pytest.mark.parametrize("wire", WIRES)
def test_journal_only_can_t_give_a_written_back_list_its_source(wire: str, store: Store) -> None:
    """It is recognised, and goes out as it came; the report and `restore` say what is missing."""
    kept = JournalOnly(store)
    made = compactor(wire, window_tokens=WINDOW, store=kept)
    c = made.fit(request(wire))
    written = {**request(wire), key_of(wire): [*copied(c.messages), *turn(wire, 99)]}
    again = made.fit(written)
    assert frozen(again.request) == frozen(written) and isinstance(again.report.error, NotFound)
    with pytest.raises(NotFound):
        packlight.restore(written, kept, all=True, format=wire)
    with pytest.raises(NotFound):
        kept.document("20e327404bae", conversation=None, owner="")
