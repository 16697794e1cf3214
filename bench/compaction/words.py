"""The prose of docs/benchmark.md and docs/benchmark-tables.md."""

ABOUT = """# Benchmark

Policies of compaction, ours and others', over recorded sessions of coding agents, without a model. Each model call of a
session is asked of each policy, which knows only what came before it. The same sessions and code give the same figures.
Every figure, by window and by session: [benchmark-tables.md](benchmark-tables.md).

    python -m bench.compaction                                    # the sessions in examples/
    python -m bench.compaction --sessions DIR --environments DIR  # yours, and other packages in their environments

Only what is not known yet is walked; figures are kept in `bench/results/compaction/`, one file a session, and those of
every request in `turns/` there. To plot these: what each request cost and missed, and what was paid so far, as CSV:

    python -m bench.compaction --turns pi-large --rows default,thrifty > turns.csv"""

SESSIONS = """## The sessions

Of each repository and agent the longest session of at least 100,000 tokens, so that no mean belongs to one of them;
copies of a session in another format and sessions filled up with one text are left out (`bench/compaction/chosen.py`).
`pi-before-compaction` and `pi-large-session` come on top: some of the aims are set for these two. They were looked at
while our digest was designed, so they are part of no mean.

Each session is treated as one log that was never compacted: what the recorded agent summarised or cleared is put
back. A window is left out where system prompt and tools alone take more than three quarters of it."""

READ = """## How to read the figures

- **cost**: the input of the whole session under a simulated prompt cache (write 1.25, read 0.1 of plain input, five
  minutes, recorded times), against no compaction *with* the same cache. 1.00 is doing nothing. A summariser's calls are
  billed. **with misses**: each call that misses something fetches it again, by one more request and 1,500 tokens.
- **FRR**, in percent: of what the agent names later and had last seen over 10 calls ago, in a result or from the user,
  how much still stands in the request. **EQR**: of the agent's edits, those whose old text it could still quote.
- **user's words**: how much of what was typed stands at the end. **rules**: of twelve made-up rules that the user
  states half way, those that stand after one batch of edits.
- **invalid**: requests that an API would refuse for their form; **over**: those larger than the window. A policy that
  has any of these needs something else beside it. **ms**: CPU time a call.

Bold: ours. Italic: controls, which nobody should use; they show how each measure can be gamed: `tail` keeps the first
message and the newest turns, `names only` a bag of identifiers."""

SIDE_BY_SIDE = """## Side by side, in a window of 128,000 tokens

Means over the sessions in Anthropic's format, on which every row can be walked; the means over all formats, of the rows
that can be walked on all, are in the full tables."""

LUCK = """## How much of it is luck

When a batch of edits falls due is chance. Here each session is walked in five windows, scaled by 0.8 to 1.25, and so is
the price of a cached read that a policy is told: the mean, and in brackets the extremes. Means over the sessions in
Anthropic's format. Elsewhere on these pages a figure is that of the window itself."""

AIMED = """## What ours is meant to reach

Set before the figures were known, for fewer sessions than there are now. *all*: every session, in every format; *pi*:
the two that the aims were set for; *that fit*: those within nine tenths of the window, which `default` should leave
alone.

Why some are missed: to write every token once and to read system prompt and tools at each call costs {least:.2f} of
doing nothing already (mean; up to {most:.2f} where tools are large or calls few), and `thrifty` makes no batch for its
rent that would have cost a session a tenth if it ended there. In a window of 64,000 tokens a client whose system prompt
and tools take 30,000 to 75,000 of it leaves no room for a digest that holds what the agent will name, whatever is kept
of it. Files that were changed outside of the recorded calls make rebuilt lines wrong that nothing in the record
contradicts. A session that ends right after its one batch has paid for it and gained nothing.

*highest when cut off* is the cost of a session that ends at the worst request: a batch is paid at once, and its gain
comes later. *recalled* is an upper bound: nearly all of it is found by the reference of a stretch of old turns, and an
agent may not know which one to ask for."""

LOSES = """## Where ours loses

`default` and `thrifty` beside every rule and package, on each session and in each window, wherever the requests of both
are all valid and all fit. Ours loses where the rival is as good in cost, FRR and EQR together, and better in one. *why*
is filled in where one of our laws ([design.md](design.md)) is the reason, or where it is the luck of the moment: all
differences are within 0.02 of cost and one percent, or the rival is no longer as good on the means over five windows.
Where it is empty, the rival was simply better. Losses on these means, which one window can hide, are listed as well:
*and around*. Shares missed: less is better, and empty where the session has nothing to miss: then it is a comparison of
cost alone."""

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
- Few sessions, more of Claude Code than of any other agent. Differences below 0.02 in cost are noise.
- A session that is several times as long as the window was never one request: doing nothing, which cost is measured
  against, would not have been possible there."""

TABLES = """# Every figure of the benchmark

What this is, which sessions, and what it cannot show: [benchmark.md](benchmark.md).

**Cost**: the first four columns are for a cached read of 0.1, 0.05 and 0.025 of plain input, and for a model without a
cache. They place cache marks as most clients do: behind the system prompt and at the end. *best marks* is the same at
0.1 wherever a prefix could be found again. *with misses* adds for each call that misses something one request and 1,500
tokens to fetch it again. *highest when cut off*: what was paid up to a request against
the same without compaction, at the request where that is most, from the first batch on (a batch is paid at once, its
gain comes later); not the mean of the sessions but the highest. Calls of a summariser are billed, output at five times
the input; a script answers them, the same for all (`bench/compaction/scripted.py`).

*mean k* is the mean request in thousand tokens; *batches* how often edits were made, *breaks* how often a request did
not begin with the one before, *invalid* the requests that an API would refuse for their form, *over* those larger than
the window; *errors* how often the policy raised one, and the request was sent as it was; *ms* the CPU time a call, *MB*
the memory at its most, on one session.

**Loss**, in percent. *FRR*: of what the agent names later and had from a result or the user, how much still stands in
the request, for all, and for what was last mentioned over 10 and over 30 calls ago. *in place*: it stands with at least
half of the words of a line it came from. *chance*: the same for random names. *EQR*: of the agent's edits, those whose
old text it could still quote. *lines true*: of copies of files that a digest shows, the lines that the next real read
confirms; what the agent changed since, by an edit or by a command that sets files anew, is not compared. *recalled*: of
what is missed, how much one recall brings back. *rules*: of twelve made-up rules that the user
states half way, those that stand after one batch and after three. *user's words*: how much of what was typed stands at
the end.

Bold: ours. Italic: controls. *only* a layer, *default without* it: what each layer of `default` does."""

MEANS = """Means over the sessions in Anthropic's format, on which every row can be walked."""

ALL_FORMATS = """Means over the sessions in all formats, for the rows that were walked on each of them."""

BY_SESSION = """In a window of 128,000 tokens. A win on the mean can hide a loss on one of these."""
