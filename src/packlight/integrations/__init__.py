"""packlight inside other people's code: `wrap` for the official clients, `recall_tool` for an agent's loop.

No SDK is imported here: the objects that come in are known by what they are called and what they have.
"""
