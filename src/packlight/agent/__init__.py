"""A small agent in the shape of the two articles packlight comes from, which never runs out of window.

Begin to read at `loop`: it is one loop around a model and its tools. `apis` speaks the three APIs, `tools` lists what
the model may call, `session` keeps the conversation on disk. What makes it fit is two lines of `loop`.
"""
