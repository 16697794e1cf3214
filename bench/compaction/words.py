"""The prose of docs/benchmark.md."""

ABOUT = """# Benchmark

Policies of compaction, ours and others', over recorded sessions of coding agents, without a model. Deterministic: the
same sessions and code give the same figures.

    python -m bench.compaction                                    # the sessions in examples/
    python -m bench.compaction --sessions DIR --environments DIR  # yours, and other packages in their environments

Only what is not known yet is walked; figures are kept in `bench/results/compaction/`, one file a session. Each session
is treated as one log that was never compacted: what the recorded agent summarised or cleared is put back. Each model
call of the session is asked of each policy, which knows only what came before it.

**Cost** is the input of the whole session under a simulated prompt cache (write 1.25, five minutes, recorded times),
against no compaction *with* the same cache: 1.00 is doing nothing. The first four columns are for a cached read of 0.1,
0.05 and 0.025 of plain input, and for a model without a cache. They place cache marks as most clients do: behind the
system prompt and at the end. *best marks* is the same at 0.1 wherever a prefix could be found again. *with misses* adds
for each call that misses something one request and 1,500 tokens to fetch it again. Calls of a summariser are billed,
output at five times the input; a script answers them, the same for all (`bench/compaction/scripted.py`). When a batch
falls due is luck: where brackets stand, the figures are means over five windows scaled by 0.8 to 1.25, and the brackets
hold the extremes (of `thrifty`, which decides by the price, for the first column; the others are of the window itself).

*mean k* is the mean request in thousand tokens; *batches* how often edits were made, *breaks* how often a request did
not begin with the one before, *invalid* the requests that an API would refuse for their form, *over* those larger than
the window; *ms* the CPU time a call, *MB* the memory at its most.

**Loss**, in percent. *FRR*: of what the agent names later and had from a result or the user, how much still stands in
the request, for all, and for what was last mentioned over 10 and over 30 calls ago. *in place*: it stands with at least
half of the words of a line it came from. *chance*: the same for random names. *EQR*: of the agent's edits, those whose
old text it could still quote. *lines true*: of copies of files that a digest shows, the lines that the next real read
confirms. *recalled*: of what is missed, how much one recall brings back. *rules*: of twelve made-up rules that the user
states half way, those that stand after one batch and after three. *user's words*: how much of what was typed stands at
the end.

Bold: ours. Italic: controls, which nobody should use; they show how each measure can be gamed."""

MEANS = """Means over the sessions in Anthropic's format, on which every row can be walked."""

BY_SESSION = """In a window of 128,000 tokens. A win on the mean can hide a loss on one of these."""

AIMED = """Set before the figures were known. Why some are missed: in a window of 64,000 tokens a client whose system
prompt and tools take 30,000 to 55,000 of it leaves no room for a digest that holds what the agent will name, whatever
is kept of it; files that were changed outside of the recorded calls make rebuilt lines wrong that nothing in the record
contradicts; and the milliseconds are those of batches, spread over the calls. *recalled* is an upper bound: nearly all
of it is found by the reference of a stretch of old turns, and an agent may not know which one to ask for. Digests name
these stretches only since `default` and `thrifty` were walked last at 200,000 tokens; the other windows were walked
before, and show what recall found without."""

LIMITS = """## What this cannot show

- **No task is solved here.** The agent does what it did, whatever it was shown. A real one would ask again, or go
  wrong; *with misses* prices only the asking.
- **FRR is gamed by a bag of names**, EQR by copies of files, the rules by keeping all that users type, cost by throwing
  everything away. Read them together, beside the controls. None of them sees plans and reasons, which is what a summary
  by a good model is for: rows with a scripted summariser say nothing about how good its text would have been.
- The recorded agents had compacted themselves now and then and lost something: what they did not name then is not
  missed.
- Sizes are estimates scaled to the recorded usage. Published sizes for 200,000 tokens are scaled with the window, and
  packages that count characters are told thresholds that mean the same size in real tokens.
- A package's tools that bring things back (expand, read a file) are not credited, nor priced.
- Few sessions, most of two agents, several from the same repositories. Differences below 0.02 in cost are noise.
- Two of the sessions (badlogic__pi-mono) were looked at while the digest was designed."""
