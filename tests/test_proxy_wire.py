"""Bodies: known parts are not parsed again, odd ones are refused with one line."""

from __future__ import annotations

import pytest

from packlight.errors import InvalidRequest
from packlight.proxy.wire import Body, Memo


def nested(levels: int) -> bytes:
    inner = b"[" * levels + b"]" * levels
    return b'{"model":"m","messages":[{"role":"user","content":' + inner + b"}]}"


def test_same_bytes_give_the_same_object():
    memo = Memo()
    first = Body(b'{"messages":[{"role":"user","content":"a"}]}', "messages", memo)
    longer = Body(b'{"messages":[{"role":"user","content":"a"},null,null]}', "messages", memo)
    assert longer.request["messages"][0] is first.request["messages"][0]
    assert longer.request["messages"][1:] == [None, None]


def test_deep_nesting_is_read_and_too_deep_refused():
    assert Body(nested(600), "messages", Memo()).request["model"] == "m"
    assert Body(nested(990), "messages", Memo()).request["model"] == "m"
    for levels in (2_000, 1_000_000):
        with pytest.raises(InvalidRequest, match="nested deeper"):
            Body(nested(levels), "messages", Memo())


def test_memo_forgets_what_was_used_longest_ago():
    memo = Memo(max_bytes=4_000)
    old, kept = b'"' + b"o" * 400 + b'"', b'"' + b"k" * 400 + b'"'
    values = memo.values([old, kept])
    assert memo.value(kept) is values[1]
    memo.values([b'"' + bytes([65 + n]) * 300 + b'"' for n in range(2)])
    assert memo.value(kept) is values[1]
    assert memo.value(old) is not values[0]
