"""CliffCompaction: the engine of its proxy, which is all it has. It counts characters / 4; the threshold is set so
that it compacts where the window is really full."""

from cliffcompaction.config import Config
from cliffcompaction.dialects import detect
from cliffcompaction.engine import Engine
from worker import CHARS_PER_TOKEN, serve

PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}


def make(setting, side):
    room = setting["budget_tokens"] - setting["head_tokens"]
    threshold = round(room / setting["tokens_per_char"] / CHARS_PER_TOKEN)
    engine, dialect = Engine(Config(threshold_tokens=max(1_000, threshold))), detect(PATHS[setting["format"]])

    def policy(messages, head, now):
        return engine.prepare({dialect.messages_key: messages}, dialect).substituted

    return policy


serve(make)
