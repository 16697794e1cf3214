"""distil-llm: `compress_messages` of its adapter for Anthropic, and that of its README ("Use it as a library").

The adapter reads from the cache marks what the provider holds, and leaves that alone; so the requests get a mark at
their end, as clients set it, and at the end of the request before. The one of the README takes messages whose content
is a text: each result is given to it as such, once, since it treats each message by itself.
"""

import os
import tempfile

from translate import Sent, Translation
from worker import serve

os.environ["DISTIL_HOME"] = tempfile.mkdtemp()
MARK = {"cache_control": {"type": "ephemeral"}}


def marked(message):
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*blocks[:-1], {**blocks[-1], **MARK}]}


def unmarked(message, given):
    content = message["content"]
    if isinstance(content, list):
        content = [{k: v for k, v in b.items() if k != "cache_control"} for b in content]
    plain = given["content"]
    same = [{"type": "text", "text": plain}] if isinstance(plain, str) else plain
    return given if content in (plain, same) else {**message, "content": content}


def adapter(setting):
    from distil.adapters.anthropic import compress_messages

    before = 0

    def policy(messages, head, now):
        nonlocal before
        ends = {len(messages) - 1, before - 1}
        before = len(messages)
        sent, _ = compress_messages([marked(m) if i in ends else m for i, m in enumerate(messages)], persist=False)
        return [m if m is given else unmarked(m, given) for m, given in zip(sent, messages, strict=True)]

    return policy


def library(setting):
    from distil import compress_messages

    translation, sent = Translation(setting["format"]), []

    def compressed(unit):
        text = compress_messages([{"role": unit.role, "content": unit.text}]).messages[0]["content"]
        return Sent(unit, None if text == unit.text else text)

    def policy(messages, head, now):
        units = translation.units(messages)
        if any(s.unit is not u for s, u in zip(sent, units, strict=False)):
            sent.clear()
        sent.extend(map(compressed, units[len(sent) :]))
        return translation.back(sent)

    return policy


serve(lambda setting, side: {"adapter": adapter, "library": library}[setting["use"]](setting))
