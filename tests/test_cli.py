"""The command line as a user has it: each command, what it prints, how it ends."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_help import file, one_line, run, small  # noqa: F401
from engine import body, frozen, packlight
from talk import MANY, WIRES, opening, request, talk, turn, turns

ROOT = Path(__file__).parent.parent
every_wire = pytest.mark.parametrize("wire", WIRES)
COMMANDS = ("replay", "compact", "check", "restore", "recall")


# compact and restore


@pytest.mark.parametrize("piped", [False, True], ids=["file", "stdin"])
@every_wire
def test_compact_writes_request_to_stdout(wire, piped, run, file):
    given = request(wire)
    source = "-" if piped else file(given)
    code, out, errors = run("compact", source, *small(wire), stdin=json.dumps(given).encode() if piped else b"")
    made = json.loads(out)
    assert code == 0 and out.count("\n") == 1 and len(out) < len(json.dumps(given)) / 2
    assert packlight.validate(made, wire) == [] and made.keys() == given.keys()
    assert errors.startswith("compacted: ") and " -> " in errors and "  1 x compact_history: " in errors
    assert "--store" in errors, "the user is told that nothing else keeps what was taken out"


@every_wire
def test_compact_reports_as_json(wire, run, file):
    _, out, errors = run("compact", file(request(wire)), *small(wire), "--json")
    report = json.loads(errors)
    wanted = {"outcome", "reason", "tokens_before", "tokens_after", "budget_tokens", "window_tokens", "fits", "layers"}
    assert wanted | {"edits", "new_edits", "violations", "conversation", "error"} <= report.keys()
    assert report["outcome"] == "compacted" and report["error"] is None and report["fits"] is True
    assert json.loads(out) and report["tokens_after"] < report["tokens_before"]
    assert {"layer", "action", "start", "end", "replacement", "ref"} <= report["edits"][0].keys()


def test_compact_leaves_what_fits(run, file):
    given = request("chat", 2)
    code, out, errors = run("compact", file(given), "--window-tokens", "200_000")
    assert code == 0 and json.loads(out) == given and errors.startswith("unchanged: ")
    code, out, errors = run("compact", file(given), "--model", "nobody-knows")
    assert code == 0 and json.loads(out) == given
    nameless = {k: v for k, v in given.items() if k != "model"}
    code, out, errors = run("compact", file(nameless))
    assert code == 0 and "--window-tokens" in errors, "the user is told what is missing"


def test_compact_force_makes_a_batch(run, file):
    given = request("anthropic", 20)
    _, out, errors = run("compact", file(given), "--force")
    assert len(out) < len(json.dumps(given)) and errors.startswith("compacted")


@pytest.mark.parametrize("policy", list(packlight.PRESETS))
def test_compact_takes_every_policy(policy, run, file):
    code, out, _ = run("compact", file(request("anthropic")), *small("anthropic"), "--policy", policy)
    assert code == (1 if policy == "none" else 0) and packlight.validate(json.loads(out)) == []


def test_compact_that_can_not_fit_exits_1(run, file):
    given = {"messages": [{"role": "system", "content": "rule " * 9_000}, *opening("go")]}
    code, out, errors = run("compact", file(given), "--window-tokens", "4000")
    assert code == 1 and json.loads(out) and "still over the budget" in errors


def test_compact_repairs_when_asked(run, file):
    messages = talk("anthropic", 4)
    del messages[2]
    path = file(body(messages, "anthropic"))
    assert run("check", path)[0] == 1
    code, out, _ = run("compact", path, "--repair")
    assert code == 0
    assert run("check", "-", stdin=out.encode())[0] == 0
    assert frozen(json.loads(run("compact", path)[1])) == frozen(body(messages, "anthropic"))


@every_wire
def test_restore_gives_back_what_went_in(wire, run, file, tmp_path):
    """Through files: compact, append, compact again, and every way back."""
    x, y, z, store = file(request(wire)), tmp_path / "y.json", tmp_path / "z.json", tmp_path / "store"
    key = "input" if wire == "responses" else "messages"
    kept = (*small(wire), "--store", store)
    assert run("compact", x, *kept, "-o", y)[:2] == (0, "")
    code, out, _ = run("restore", y, "--store", store)
    assert code == 0 and json.loads(out) == json.loads(x.read_bytes()) and list(json.loads(out)) == list(request(wire))
    grown = json.loads(y.read_bytes())
    more = turns(wire, MANY, start=100)
    grown[key] += more
    y.write_text(json.dumps(grown))
    whole = request(wire)
    whole[key] += more
    assert json.loads(run("restore", y, "--store", store)[1]) == whole
    assert run("compact", y, *kept, "-o", z)[0] == 0
    assert len(z.read_bytes()) < len(y.read_bytes())
    assert json.loads(run("restore", z, "--store", store)[1]) == grown
    assert json.loads(run("restore", z, "--store", store, "--all")[1]) == whole
    last = turn(wire, 300)
    appended = json.loads(z.read_bytes())
    appended[key] += last
    z.write_text(json.dumps(appended))
    back = tmp_path / "back.json"
    assert run("restore", z, "--store", store, "--all", "-o", back)[:2] == (0, "")
    assert json.loads(back.read_bytes()) == {**whole, key: whole[key] + last}


@every_wire
def test_compact_twice_is_fine(wire, run, file, tmp_path):
    x, store = file(request(wire)), tmp_path / "store"
    made = [run("compact", x, *small(wire), "--store", store)[1] for _ in range(2)]
    assert made[0] == made[1]
    other = run("compact", x, "--window-tokens", "9000", "--format", wire, "--store", store)[1]
    for out in (made[0], other):
        assert json.loads(run("restore", "-", "--store", store, stdin=out.encode())[1]) == request(wire)


def test_compact_over_its_own_file(run, file, tmp_path):
    x, store = file(request("chat")), tmp_path / "store"
    x.chmod(0o640)
    assert run("compact", x, *small("chat"), "--store", store, "-o", x)[0] == 0
    assert x.stat().st_mode & 0o777 == 0o640
    assert run("restore", x, "--store", store, "-o", x)[0] == 0
    assert json.loads(x.read_bytes()) == request("chat")


def test_restore_bare_list(run, file, tmp_path):
    x, y, store = file(talk("anthropic")), tmp_path / "y.json", tmp_path / "store"
    run("compact", x, "--window-tokens", "16000", "--store", store, "-o", y)
    assert json.loads(run("restore", y, "--store", store)[1]) == talk("anthropic")


def test_odd_json_comes_back_exactly(run, tmp_path):
    """Lone surrogates, integers of any length, numbers beyond a double, keys of any kind."""
    odd = rb'{"messages": [{"role": "user", "content": "go \ud83d", "n": 123456789012345678901234567890, "x": 1e400}'
    results = b"".join(
        b', {"role": "assistant", "content": null, "tool_calls": [{"id": "t%d", "type": "function", "function": '
        b'{"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "t%d", "content": "\\udc00 %s", "": 5}'
        % (n, n, b"odd words " * 60)
        for n in range(60)
    )
    x, y, store = tmp_path / "x.json", tmp_path / "y.json", tmp_path / "store"
    x.write_bytes(odd + results + b'], "seed": -0.0, "big": ' + b"9" * 5_000 + b"}")
    code, out, _ = run("compact", x, "--window-tokens", "8000", "--store", store, "-o", y)
    assert (code, out) == (0, "") and y.stat().st_size < x.stat().st_size
    code, out, _ = run("restore", y, "--store", store)
    assert code == 0 and packlight_load(out.encode()) == packlight_load(x.read_bytes())
    assert '"\\udc00 odd' in out and "123456789012345678901234567890" in out and '"go \\ud83d"' in out
    assert run("check", x)[0] in (0, 1)


def packlight_load(data):
    from packlight import jsonio

    return jsonio.load(data)


def test_repair_alone_is_undone(run, file, tmp_path):
    """Nothing to take out, only a broken place mended: that, too, is a way back."""
    broken = body([*opening(), *turn("chat", 1, "short")[:1], *opening("on")], "chat")
    x, y, store = file(broken), tmp_path / "y.json", tmp_path / "store"
    assert run("compact", x, "--repair", "--store", store, "-o", y)[0] == 0
    assert json.loads(y.read_bytes()) != broken and run("check", y)[0] == 0
    assert json.loads(run("restore", y, "--store", store)[1] or "0") == broken


def test_text_input_comes_back_as_text(run, file, tmp_path):
    """Responses takes a plain string as `input`."""
    x, y, store = file({"input": "word " * 60_000}), tmp_path / "y.json", tmp_path / "store"
    assert run("compact", x, "--window-tokens", "16k", "--store", store, "-o", y)[0] == 0
    assert json.loads(run("restore", y, "--store", store)[1]) == {"input": "word " * 60_000}


def test_restore_needs_a_result_and_a_store(run, file, tmp_path):
    x, store = file(request("chat")), tmp_path / "store"
    code, out, errors = run("restore", x, "--store", store)
    assert (code, out) == (2, "") and one_line(errors) and "no store" in errors and not store.exists()
    run("compact", x, *small("chat"), "--store", store)
    code, out, errors = run("restore", x, "--store", store)
    assert (code, out) == (2, "") and one_line(errors) and "no result of a compaction" in errors


# check


@every_wire
def test_check_says_what_is_broken(wire, run, file):
    assert run("check", file(request(wire, 3)), "--format", wire) == (0, "", "valid\n")
    broken = talk(wire, 3)
    broken.pop(3 if wire == "responses" else 2)
    code, out, errors = run("check", file(body(broken, wire)), "--format", wire)
    assert code == 1 and errors == ""
    lines = out.splitlines()
    assert len(lines) == len(packlight.validate(body(broken, wire), wire)) >= 1
    code, out, _ = run("check", file(body(broken, wire)), "--format", wire, "--json")
    assert code == 1 and [v["rule"] in line for v, line in zip(json.loads(out), lines, strict=True)]
    assert json.loads(run("check", file(request(wire, 3)), "--json")[1]) == []


# recall


@pytest.fixture
def stored(run, file, tmp_path):
    """A store with what a compaction took out, Chinese among it, and the report."""
    messages = [*opening(), *turns("anthropic", 30)]
    messages += turn("anthropic", 500, "解析器在第十行报告了错误。\n" * 60 + "连接被拒绝")
    messages += turns("anthropic", 30, start=30)
    path, store = file(body(messages, "anthropic")), tmp_path / "store"
    _, _, errors = run("compact", path, *small("anthropic"), "--store", store, "--json")
    return store, json.loads(errors)


def test_recall_by_ref_path_and_words(stored, run):
    store, report = stored
    refs = [e["ref"] for e in report["edits"] if e["ref"] and e["path"] == "src/file_3.py"]
    by_path = run("recall", "src/file_3.py", "--store", store)
    assert by_path[0] == 0 and "value_3_7" in by_path[1] and "value_4_7" not in by_path[1]
    assert run("recall", "file_3.py", "--store", store)[1] == by_path[1]
    ref = by_path[1].split()[2]
    assert ref in refs or not refs
    for query in ((ref,), ("ref", ref), (ref[:8],), (f"[cleared: Read, 40 lines; ref {ref}]",)):
        code, out, _ = run("recall", *query, "--store", store)
        assert code == 0 and "value_3_7" in out and out.count("--- ref ") == 1
    code, out, _ = run("recall", "value_17_5", "--store", store)
    assert code == 0 and "src/file_17.py" in out
    assert run("recall", "value_17_5", "--store", store, "--limit", "1")[1].count("--- ref ") == 1


@pytest.mark.parametrize("words", ["拒绝", "解析器", "报告 错误"])
def test_recall_finds_chinese(words, stored, run):
    code, out, _ = run("recall", *words.split(), "--store", stored[0])
    assert code == 0 and "连接被拒绝" in out


def test_recall_as_json(stored, run):
    store, report = stored
    code, out, _ = run("recall", "value_3_7", "--store", store, "--json", "--conversation", report["conversation"])
    found = json.loads(out)
    assert code == 0 and {"ref", "text", "kind", "tool", "path", "conversation"} <= found[0].keys()
    assert run("recall", "value_3_7", "--store", store, "--conversation", "another")[0] == 1


@pytest.mark.parametrize(
    "query", ["nowhere-to-be-found", "0123456789ab", "", " ", '"AND(', "*", "a" * 5_000, "../../etc"]
)
def test_recall_of_nothing_exits_1(query, stored, run):
    code, out, errors = run("recall", query, "--store", stored[0])
    assert (code, out, errors) == (1, "", "nothing found\n")
    code, out, _ = run("recall", query, "--store", stored[0], "--json")
    assert code == 1 and json.loads(out) == []


# replay


@pytest.fixture
def session(file):
    return file(talk("anthropic", 30), "session.json")


REPLAY_KEYS = {"session", "reader", "format", "turns", "tokens_before", "tokens_after", "mean_context_tokens"}
REPLAY_KEYS |= {"batches", "prefix_breaks", "invalid_requests", "restored"}


def test_replay_as_json(session, run):
    code, out, errors = run("replay", session, "--json", "--window-tokens", "16k", "--policy", "default")
    (line,) = out.splitlines()
    found = json.loads(line)
    assert code == 0 and found.keys() >= REPLAY_KEYS and errors == ""
    assert found["turns"] >= 30 and found["batches"] >= 1 and found["restored"] is True
    assert found["invalid_requests"] == 0 and found["tokens_after"] < found["tokens_before"]


def test_replay_for_people(session, run):
    code, out, _ = run("replay", session, "--policy", "none,default", "--window-tokens", "16000")
    assert code == 0 and out.startswith("session ") and "policy default" in out
    assert out.index("where the input money went") < out.index("what the policies would have changed")
    code, out, _ = run("replay", "-", "--json", "--policy", "none", stdin=session.read_bytes())
    assert code == 0 and json.loads(out)["turns"] >= 30


def test_replay_compares_three_policies_by_default(session, run):
    code, out, _ = run("replay", session, "--json", "--window-tokens", "16k")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [r["policy"] for r in rows] == ["none", "default", "thrifty"]
    assert rows[0]["cost"]["ratio"] == 1.0 and rows[0]["batches"] == 0


def test_replay_goes_on_after_a_bad_file(session, run, file):
    file(b"\x00\x01", "broken.json")
    code, out, errors = run("replay", session.parent, "--json", "--policy", "none")
    assert code == 0 and len(out.splitlines()) == 1 and one_line(errors) and "broken.json" in errors


def test_replay_goes_on_after_a_file_that_is_not_there(session, run):
    code, out, errors = run("replay", session.parent / "no\nsuch.json", session, "--json", "--policy", "default")
    assert code == 0 and len(out.splitlines()) == 1 and one_line(errors) and "such.json: No such file" in errors
    code, out, errors = run("replay", session.parent / "no.json", session.parent / "none.json")
    assert (code, out) == (2, "") and len(errors.splitlines()) == 3 and "no session found" in errors


def test_replay_of_nothing(run, tmp_path):
    (tmp_path / "empty").mkdir()
    code, out, errors = run("replay", tmp_path / "empty")
    assert (code, out) == (2, "") and one_line(errors) and "no session" in errors
    code, out, errors = run("replay", tmp_path / "empty", "--policy", "magic")
    assert (code, out) == (2, "") and "unknown policy" in errors and one_line(errors)


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "examples").glob("*.jsonl")))
def test_examples_replay(name, run):
    code, out, errors = run("replay", ROOT / "examples" / name, "--json", "--window-tokens", "64k")
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and errors == "" and found
    assert all(f["restored"] and not f["invalid_requests"] and not f["prefix_breaks_outside_batches"] for f in found)


def test_purge_counts_in_words(stored, run):
    code, out, _ = run("purge", "--store", stored[0], "--all")
    assert code == 0 and "1 conversation removed (1 compaction, " in out and " texts, 0 files)" in out


# help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command, run):
    code, out, errors = run(command, "--help")
    assert code == 0 and errors == "" and "examples:" in out and f"packlight {command}" in out.split("examples:")[1]
    assert "rite" in out or "finds" in out, "it says what it writes or gives"
    assert max(map(len, out.splitlines())) <= 120


def test_help_lists_every_command(run):
    code, out, _ = run("--help")
    assert code == 0 and all(f"    {command} " in out for command in COMMANDS)
    code, out, errors = run()
    assert (code, out) == (2, "") and "usage:" in errors
    assert run("--version")[:2] == (0, f"packlight {packlight.__version__}\n")


def test_help_texts_name_real_options(run):
    """Every option in an example is one that its command has."""
    for command in COMMANDS:
        out = run(command, "--help")[1]
        options, examples = out.split("examples:")
        used = {word for word in examples.split() if word.startswith("--")}
        assert used and all(word in options for word in used)
