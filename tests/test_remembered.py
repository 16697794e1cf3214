"""What one batch worked out is there for the next: the digest is the same as without, and a fork gets none of it."""

from __future__ import annotations

import hashlib
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import packlight
from packlight import formats
from packlight.journal import blobs_of
from packlight.reading import MAX_REMEMBERED, Seen, memory_of
from packlight.store import MemoryStore
from packlight.summary import digest, secrets
from packlight.summary.files import file_events
from packlight.summary.names import Known, Mentions, Source
from packlight.types import SummaryJob
from packlight.view import View

ANTHROPIC, RESPONSES = formats.FORMATS["anthropic"], formats.FORMATS["responses"]


def count(value):
    return max(1, len(json.dumps(value, ensure_ascii=False)) // 3)


def worked(rng, rounds):
    """An agent's work on a few files, with much that comes again."""
    lines = [f"    value_{n} = load_config('{n}', KEY='secret{n}word')  # step-{n % 7}" for n in range(60)]
    messages = [{"role": "user", "content": "Mend the parser in src/a.py."}]
    for n in range(rounds):
        path = f"/w/src/{rng.choice('abc')}.py"
        part = lines[(first := rng.randrange(50)) : first + rng.randrange(1, 30)]
        shown = "\n".join(f"{i + 1}\t{line}" for i, line in enumerate(part))
        tool, arguments, result = rng.choice(
            [
                ("Read", {"file_path": path}, shown),
                ("Edit", {"file_path": path, "old_string": part[0], "new_string": part[-1] + f"\nnew_{n}()"}, "ok"),
                ("Write", {"file_path": path, "content": "\n".join(part)}, "written"),
                ("Bash", {"command": f"sed -n 1,9p {path}"}, "\n".join(part[:9])),
                ("Bash", {"command": f"git stash && make test_{n}"}, f"Error: exit code 1 in {path}"),
                ("Task", {"prompt": "look at every file of the parser and tell what is wrong"}, "Nothing found."),
            ]
        )
        call = {"type": "tool_use", "id": f"t{n}", "name": tool, "input": arguments}
        text = {"type": "text", "text": f"I decided to use parser_{n % 5} because of step {n}."}
        messages.append({"role": "assistant", "content": [text, call]})
        answer = {"type": "tool_result", "tool_use_id": f"t{n}", "content": result}
        messages.append({"role": "user", "content": [answer]})
    return messages


def written(read, job, memory):
    view = View(format=ANTHROPIC, messages=read, count=count, enlist=lambda text: f"{len(text):012x}", memory=memory)
    try:
        next(digest(SummaryJob(view=view, **job)))
    except StopIteration as done:
        return done.value.text


@pytest.mark.parametrize("seed", range(8))
def test_a_digest_is_the_same_with_what_earlier_ones_remembered(seed):
    rng = random.Random(seed)
    read = [formats.read_message(ANTHROPIC, m, count) for m in worked(rng, 40)]
    memory = {}
    for length in range(21, len(read), 6):
        for _ in range(2):
            end = rng.randrange(15, length, 2) + 1
            kept = frozenset({rng.randrange(2, 6)}) if rng.random() < 0.2 else frozenset()
            job = {"start": 1, "end": end, "max_tokens": rng.choice((700, 2_500, 9_000)), "visible_from": end}
            job["kept"] = kept
            assert written(read[:length], job, memory) == written(read[:length], job, {})
    assert {"names", "file_models", "file_events", "stretch"} <= memory.keys()


def called(n, path):
    arguments = json.dumps({"file_path": path, "content": "x = 1"})
    return {"type": "function_call", "call_id": f"c{n}", "name": "Write", "arguments": arguments}


def answered(n):
    return {"type": "function_call_output", "call_id": f"c{n}", "output": "written"}


def test_which_names_are_looked_at_does_not_depend_on_the_order_they_were_learned_in():
    """One name, with and without a dot behind it, where the bound falls."""
    texts = [f"a_{n}" for n in range(5_999)] + ["zz/name_1.py", "zz/name_1.py."]
    names = []
    for order in (texts, texts[::-1]):
        known, numbers = Known(), []
        for text in order:
            numbers += known.read([(Source(text, 1), text)])[0][1]
        counts = {n: 2 if known.words[n][0].endswith(b".") else 1 for n in numbers}
        names.append(Mentions(known.words, counts, dict.fromkeys(numbers, 1), {}, set(), [], [], 1).seen(()).ranked)
    assert len(names[0]) == 6_000
    assert names[0] == names[1]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_what_a_call_did_is_not_remembered_for_a_list_that_ends_before_its_answer(length):
    items = [called(1, "/w/a.py"), called(2, "/w/b.py"), called(3, "/w/c.py"), answered(2), answered(1), answered(3)]
    read = [formats.read_message(RESPONSES, m, count) for m in items]
    longer = View(format=RESPONSES, messages=read[:5], count=count)
    assert [e.ok for e in file_events(longer)] == [True, True, False]
    shorter = View(format=RESPONSES, messages=read[:length], count=count, memory=longer.memory)
    assert file_events(shorter) == file_events(View(format=RESPONSES, messages=read[:length], count=count))


@pytest.mark.parametrize("place", [2, 5, 20])
def test_a_fork_is_compacted_as_if_the_other_branch_had_never_been(place):
    one, other = worked(random.Random(1), 120), worked(random.Random(2), 130)
    other[:place] = one[:place]
    shared = packlight.Compactor(window_tokens=20_000)
    assert shared.fit(one).report.new_edits
    forked, alone = shared.fit(other), packlight.Compactor(window_tokens=20_000).fit(other)
    assert forked.report.new_edits
    assert forked.messages == alone.messages


def test_a_conversation_that_went_back_and_on_is_compacted_as_a_new_one():
    messages = worked(random.Random(3), 160)
    shared = packlight.Compactor(window_tokens=20_000)
    for end in (241, 201, 281):
        shared.fit(messages[:end], force=True)
        changed = [*messages[: end - 1], {"role": "user", "content": [messages[end - 1]["content"][0]]}]
        again = shared.fit_once(changed, force=True)
        assert again.messages == packlight.Compactor(window_tokens=20_000).fit_once(changed, force=True).messages


def test_memory_is_kept_of_the_newest_conversations_and_goes_with_them():
    seen = [Seen(ANTHROPIC, bytes([n])) for n in range(MAX_REMEMBERED + 1)]
    for each in seen:
        memory_of(each)["of"] = each.thread
    assert [bool(each.thread.memory) for each in seen] == [False] + [True] * MAX_REMEMBERED
    longer = seen[-1].first(len(seen[-1]))
    assert memory_of(longer) is seen[-1].thread.memory


def test_conversations_that_are_over_take_no_place_from_those_that_go_on():
    seen = Seen(ANTHROPIC, b"one")
    memory_of(seen)["of"] = seen.thread
    for n in range(3 * MAX_REMEMBERED):
        memory_of(Seen(ANTHROPIC, bytes([n])))
    assert seen.thread.memory


class Others(MemoryStore):
    """A store: while a batch is planned over it, as many other conversations have one as are remembered."""

    def ref(self, text, *, owner):
        self.seen = [Seen(ANTHROPIC, bytes([n])) for n in range(MAX_REMEMBERED)]
        for each in self.seen:
            memory_of(each)
        return super().ref(text, owner=owner)


def test_what_fit_gave_back_holds_nothing_of_a_memory_that_went_to_others_meanwhile():
    given_back = packlight.Compactor(store=Others(), window_tokens=20_000).fit(worked(random.Random(4), 120))
    assert given_back.report.new_edits
    assert not given_back.state.view.memory


@given(st.lists(st.sampled_from(
    ("token", "TOKEN", "apiKey", "_key", "KEY=", "SECRET=", '"', "'", "=", ": ", "\n", "passwd", "credentials",
     "CREDENTIALS=", "sk-abc-", "sk_live_", "ghp_", "eyJ", "abcdefghijklmnopqrstuvwxyz0123456789", ".", "xoxb-", "hf_",
     "AKIA", "AAAAAAAAAAAAAAAA", "é", "oken", "ecret", "PWD=", "x")), max_size=30).map("".join))  # fmt: skip
def test_secrets_are_found_where_a_search_of_everything_finds_them(text):
    expected = secrets._ENV.sub(secrets._masked, text)
    if '"' in expected or "'" in expected:
        expected = secrets._QUOTED.sub(secrets._masked_literal, expected)
    assert secrets.mask(text) == secrets._SHAPES.sub(secrets.MASK, expected)


def test_the_hash_of_an_original_is_of_the_object_that_is_stored():
    memory = {}
    one, other = worked(random.Random(3), 20), worked(random.Random(3), 20)
    other[4]["content"][0]["cache_control"] = {"type": "ephemeral"}
    for messages in (one, other):
        read = [formats.read_message(ANTHROPIC, m, count) for m in messages]
        view = View(format=ANTHROPIC, messages=read, count=count, memory=memory)
        edit = view.replace("test", "removed", ((3,), (7,)), [])
        blobs, places = blobs_of(view, [edit])
        assert sorted(places) == [3, 4, 5, 6]
        assert all(hashlib.sha256(whole()).hexdigest() == key for key, whole in blobs.items())
        assert json.loads(blobs[places[4]]()) == messages[4]
