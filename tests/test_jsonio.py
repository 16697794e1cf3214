"""Anything from outside is read or refused with one line; what is read is written back as it was."""

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlight.errors import InvalidRequest
from packlight.jsonio import dump, levels, load

BAD = {
    "empty": (b"", "empty"),
    "spaces": (b" \n\t ", "empty"),
    "byte order mark alone": (b"\xef\xbb\xbf", "empty"),
    "words": (b"hello there", "line 1, column 1"),
    "second line": (b'{"a": 1,\n "b" 2}', "line 2, column 6"),
    "trailing comma": (b"[1,]", "line 1, column"),
    "cut in a string": (b'{"a": "hal', "truncated"),
    "cut after a value": (b'{"a": [1, 2', "truncated"),
    "cut after a comma": (b'{"a": 1, ', "truncated"),
    "cut in a character": ('{"a": "é'.encode()[:-1], "truncated"),
    "two values": (b'{"a":1}\n{"a":2}', "second value begins at line 2, column 1"),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "binary"),
    "gzip": (b"\x1f\x8b\x08\x00\x9e\x01\x02\x03\x04", "binary"),
    "utf-16": ('{"a": 1}'.encode("utf-16"), "UTF-16"),
    "utf-16 without a mark": ('{"a": 1}'.encode("utf-16-le"), "UTF-16"),
    "latin-1": ('{"a": "caf\xe9s"}'.encode("latin-1"), "invalid UTF-8 at line 1, byte 10"),
    "NaN": (b'{"NaN": 1,\n"a": NaN}', "line 2, column 6"),
    "infinity": (b"[-Infinity]", "-Infinity is no JSON number"),
    "single quotes": (b"{'a': 1}", "line 1, column 2"),
    "control character": (b'"a\nb"', "line 1"),
    "too deep": (b"[" * 1001 + b"]" * 1001, "deeper than 1,000"),
    "far too deep": (b'{"a":' * 200_000, "deeper than 1,000"),
    "deep and cut": (b"[" * 900, "truncated"),
    "deep and wrong": (b"[" * 900 + b"x" + b"]" * 900, "line 1, column 901"),
    "deep and NaN": (b"[" * 900 + b"NaN" + b"]" * 900, "NaN is no JSON number"),
    "deep and two": (b"[" * 900 + b"]" * 900 + b" 1", "second value"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_one_line(name: str) -> None:
    source, words = BAD[name]
    with pytest.raises(InvalidRequest) as caught:
        load(source)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert len(message) < 120


ODD = {
    "lone surrogate": rb'{"a":"x\ud800y","\udfff":1}',
    "big integer": b"[" + b"7" * 40 + b",-18446744073709551617]",
    "huge integer": b"[" + b"123456789" * 4_000 + b",-" + b"9" * 9_999 + b"]",
    "integer with zeros": b"[1" + b"0" * 10_000 + b"]",
    "non-ASCII": '{"é":"日本語 👩‍👩‍👧"}'.encode(),
    "escaped": rb'["\u0000\u001f\"\\\b"]',
    "scalars": b'[true,false,null,0,-0.0,1.5e-7,"",{},[]]',
    "deep list": b"[" * 1000 + b"]" * 1000,
    "deep object": b'{"a":[1,' * 499 + b'"\xc3\xa9"' + b"]}" * 499,
}


@pytest.mark.parametrize("name", ODD)
def test_odd_input_comes_back(name: str) -> None:
    value = load(ODD[name])
    written = dump(value)
    assert dump(load(written)) == written
    assert dump(load(dump(value, indent=1))) == written


def test_values_are_exact() -> None:
    assert load(rb'{"a":"\ud800","b":1,"b":2}') == {"a": "\ud800", "b": 2}
    assert dump({"a": "\ud800é"}) == rb'{"a":"\ud800' + "é".encode() + b'"}'
    assert load(rb'"\ud83d\ude00"') == "😀"
    assert load(b"\xef\xbb\xbf[1]") == [1]
    assert load(b"123456789012345678901234567890") == 123456789012345678901234567890
    assert load(b"[1e400,-1e400]") == [float("inf"), float("-inf")]
    assert load(dump(load(b"[1e400,-1e400]"))) == [float("inf"), float("-inf")]
    assert load(b"9" * 10_000) == 10**10_000 - 1
    assert dump(10**10_000) == b"1" + b"0" * 10_000


def test_not_a_json_value() -> None:
    for value in (float("nan"), [float("inf"), float("nan")]):
        with pytest.raises(ValueError, match="NaN"):
            dump(value)
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(ValueError, match="Circular"):
        dump(cycle)
    with pytest.raises(TypeError):
        dump({"a": object()})


def test_the_same_object_twice() -> None:
    """Twice is no cycle, also for the writer that is used beyond the C encoder."""
    shared = [1, {"a": float("inf")}]
    assert dump([shared, shared]) == b'[[1,{"a":1e999}],[1,{"a":1e999}]]'
    assert dump({"x": shared}, indent=2) == b'{\n  "x": [\n    1,\n    {\n      "a": 1e999\n    }\n  ]\n}'


def test_levels_ignore_strings() -> None:
    nested = {"a": ["[" * 2_000, '\\"{[\\\\', [[]]], "b": [[]] * 400}
    assert levels(json.dumps(nested).encode()) == 4


@given(st.lists(st.sampled_from(["[", "]", "{", "\\", '"', "a"]), max_size=40), st.integers(1, 7))
@settings(max_examples=300, deadline=None)
def test_levels_in_small_pieces(texts: list[str], scan_bytes: int) -> None:
    """Strings and escapes that lie across the border of two pieces."""
    from packlight import jsonio

    source = json.dumps([[]] * 301 + ["".join(texts), [["".join(texts)]]] * 3).encode()
    before, jsonio._SCAN_BYTES = jsonio._SCAN_BYTES, scan_bytes
    try:
        assert levels(source) == 3
    finally:
        jsonio._SCAN_BYTES = before


def test_deep_from_a_deep_stack() -> None:
    """The interpreter's recursion limit is no limit of ours."""

    def call(levels_left: int) -> int:
        return call(levels_left - 1) if levels_left else len(dump(load(b"[" * 950 + b"]" * 950), indent=1))

    assert call(sys.getrecursionlimit() // 2) > 1900


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=()))
)
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(), v, max_size=4), max_leaves=30
)


@given(values, st.sampled_from([None, 1, 4]))
@settings(max_examples=300, deadline=None)
def test_writers_agree(value: object, indent: int | None) -> None:
    from packlight.jsonio import _parse, _Writer

    text = _Writer(indent).text(value)
    separators = (",", ":") if indent is None else (",", ": ")
    plain = json.dumps(value, ensure_ascii=False, separators=separators, indent=indent)
    assert text == plain.replace("Infinity", "1e999") or "Infinity" in json.dumps(value, ensure_ascii=False)
    assert json.dumps(_parse(text)) == json.dumps(json.loads(text))


@given(st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_random_bytes(source: bytes) -> None:
    try:
        value = load(source)
    except InvalidRequest as error:
        assert "\n" not in str(error)
    else:
        assert load(dump(value)) == value
