"""The engine: recognise, apply what is recorded, measure, plan a batch when one is due, check it, record it.

Everything that could wait (a model that writes a summary) is a generator that yields its question; `fit` and `afit`
drive the same body.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import models, overflow
from .budget import limits_of
from .compaction import Compaction
from .driving import aask, ask, drive
from .errors import ContextWindowExceeded, InvalidRequest, StoreError, SummaryError
from .formats import encode_as_is, plain, split
from .laws import all_thinking, gained, rendered_messages, repairs, unbound_thinking, violations
from .layers import MediaLimits
from .ledger import Ledger, taken_out
from .measure import Gauge
from .outcome import result_of, unread
from .planning import MIN_GAIN_RATIO, Counting, Work, bytes_of, looks_at, new_edits, planned, refused, target_of
from .policy import RECORDED, Policy, preset
from .reading import Reader, Seen, let_go, memory_of
from .records import Records
from .rescue import MAX_ATTEMPTS, narrowed, shorter_answer
from .store import Store, open_store
from .summary.breaker import Breaker
from .tokens import Counter, count_value, counter_for
from .types import Edit, Json, SummaryReply, SummaryRequest, Violation
from .view import ResultAt, View, apply
from .writers import needs_await, writer_of

Planning = Generator[SummaryRequest, SummaryReply, Compaction]
"""A fit on its way: yields what a writer asks, is sent the reply, ends with the result."""

_LEFT_ALONE = "left alone: the provider refused it with new edits"


class Compactor:
    """Keeps conversations inside a model's window. Shareable between threads and tasks.

    `policy` is a preset's name or a `Policy`. `store` names a folder (or is a `Store`); without one everything is
    kept in memory. `window_tokens` or `max_input_tokens` overrule what is known of the model; where neither is
    known nothing is compacted ahead of an overflow error, from which the window is then learned.
    `overhead_tokens` is the size of system and tools when only bare lists are given. `recall="files"` lets
    placeholders name plain files of the store, and writes the conversation there too, one JSON line a message, each
    time something is taken out of it; with `recall="none"` they name nothing, where nobody could recall it.
    `repair=True` mends broken requests on the way. `writer` names a model that writes the prose of summaries (see
    `model_writer`); without one no model is ever asked.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        policy: str | Policy = "default",
        store: str | Path | Store | None = None,
        owner: str = "",
        window_tokens: int | None = None,
        max_input_tokens: int | None = None,
        overhead_tokens: int = 0,
        writer: Any = None,
        keep_tools: Collection[str] = (),
        keep: Callable[[ResultAt], bool] | None = None,
        recall: str = "ref",
        repair: bool = False,
        counter: Counter | None = None,
        model_overrides: Mapping[str, Any] | None = None,
    ) -> None:
        if recall not in ("ref", "files", "none"):
            raise ValueError(f"recall is 'ref', 'files' or 'none', not {recall!r}")
        self.model = model
        self.policy = preset(policy, writer_of(writer))
        self.needs_await = needs_await(self.policy)
        """A writer can only be awaited: `afit` works, `fit` raises TypeError."""
        self.store: Store = open_store(store) if store is None or isinstance(store, (str, Path)) else store
        self.owner = owner
        self._counter = counter
        self._window_tokens = window_tokens
        self._max_input_tokens = max_input_tokens
        self._overrides = model_overrides
        self._keep_tools = frozenset(keep_tools)
        self._keep = keep
        self._recall = recall
        self._repair = repair
        self._records = Records(self.store, owner)
        self._counts: dict[tuple[str, str], Counting] = {}
        self._gauge = Gauge(self.store, owner, overhead_tokens)
        self._breaker = Breaker()

    def _counted(self, model: str | None) -> Counting:
        """How this model's requests are counted, and the reader that remembers the counts."""
        counter, rule = self._counter or counter_for(model), models.image_rule(model)
        known = self._counts.get((counter.name, rule))
        if known is None:

            def count(value: Json) -> int:
                return count_value(value, counter, image_rule=rule)

            reader = Reader(self._records.journal, count, lambda: self._records.spare)
            known = self._counts.setdefault((counter.name, rule), Counting(counter, count, reader))
        return known

    # --- public ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        request: Json,
        *,
        conversation: str | None = None,
        now_seconds: float | None = None,
        format: str | None = None,
        force: bool = False,
        recorded_only: bool = False,
        focus: str = "",
    ) -> Compaction:
        """The request, made to fit: valid for its API, its prefix unchanged unless a batch was due.

        Cheap when nothing is due. Raises InvalidRequest (UnknownFormat) for what is no request; any other failure
        stands in `report.error`, the request as it was with the edits it already had. `force` makes a batch
        although none is due; with `recorded_only` none is made although one is. `now_seconds` is the time of the
        call, for replays. `focus` tells a model that writes a summary what to be most exact about. Raises TypeError
        when that model can only be awaited.
        """
        now = time.time() if now_seconds is None else now_seconds
        return self._driven(
            self._fit(request, conversation, now, format, force, recorded_only=recorded_only, focus=focus), now
        )

    def fit_once(self, request: Json, *, format: str | None = None, force: bool = False) -> Compaction:
        """`fit` as if nothing was recorded, but for what the request shows to be our own output written back."""
        now = time.time()
        return self._driven(self._fit(request, None, now, format, force, fresh=True), now)

    async def afit(
        self,
        request: Json,
        *,
        conversation: str | None = None,
        now_seconds: float | None = None,
        format: str | None = None,
        force: bool = False,
        recorded_only: bool = False,
        focus: str = "",
    ) -> Compaction:
        """`fit` for coroutines: other tasks, and other fits of the same conversation, go on while a model writes."""
        now = time.time() if now_seconds is None else now_seconds
        steps = self._fit(request, conversation, now, format, force, recorded_only=recorded_only, focus=focus)
        try:
            question = next(steps)
            while True:
                question = steps.send(self._unasked(question, now) or await aask(question))
        except StopIteration as done:
            result: Compaction = done.value
            return result
        finally:
            steps.close()

    def _driven(self, steps: Planning, now: float) -> Compaction:
        if self.needs_await:
            raise TypeError("the writer of this compactor can only be awaited: use afit, or give it a sync one")
        return drive(steps, lambda question: self._unasked(question, now) or ask(question))

    def _unasked(self, question: SummaryRequest, now: float) -> SummaryReply | None:
        """The reply where nobody is asked; None where somebody is."""
        nobody = None if question.transport else SummaryError(f"no model answers: {question.prompt[:40]!r}")
        why = nobody or self._breaker.paused(now)
        return SummaryReply(text="", error=why) if why else None

    def record_usage(self, c: Compaction, usage: Any) -> None:
        """Tell what the provider counted for `c.request`: a reply's `usage`, as a dict or the SDK's object.

        From then on only what comes after it is estimated. Anything that is no usage is ignored.
        """
        work = c.state
        if isinstance(work, Work):
            self._counted_by_provider(work, usage)

    def _counted_by_provider(self, work: Work, usage: Any) -> None:
        whole = isinstance(work.request, Mapping)
        about: dict[str, Any] = {"now_seconds": work.now_seconds, "conversation": work.conversation}
        self._gauge.record(work.seen, work.view, usage, whole=whole, **about)

    def recover(self, c: Compaction, error: BaseException | None = None) -> Compaction:
        """A smaller request after an overflow error; another model is never asked.

        Raises the error again when it is no overflow, ContextWindowExceeded when nothing more can go or after
        three tries.
        """
        return drive(self._recover(c, error))

    async def arecover(self, c: Compaction, error: BaseException | None = None) -> Compaction:
        """`recover` for coroutines."""
        return drive(self._recover(c, error))

    def undo(self, c: Compaction, error: Exception | None = None, *, tentative: bool = False) -> Compaction:
        """The request without the new edits of `c`, for one that was refused for something else than its length.

        From now on its conversation is left alone: the edits it had before are made again, in other processes too,
        and none are added but by `recover` or `force`. `tentative` records nothing, for whoever waits for the
        provider to take it. Asks no model. Raises the error again, else InvalidRequest, when `c` has no new edits.
        """
        old = self._own(c)
        if not c.report.new_edits or old.before is None:
            raise error or InvalidRequest("nothing new was done to this request")
        work = replace(old, view=old.before, error=None, calls=[])
        failure = None
        if work.fresh:
            work.batch = work.source.batch = old.batch.parent if old.batch else None
        elif not tentative:
            failure = self._records.take_back(work, old.before)
            self._gauge.sent(work.seen, work.view, work.size, work.now_seconds, work.batch)
        why = "without its new edits, which the provider refused" if tentative else _LEFT_ALONE
        return result_of(work, work.view, (), why, error=failure or error)

    def unbind(self, c: Compaction, error: Exception | None = None) -> Compaction:
        """The request without its signed thinking, for one that was refused because what stands before that changed.

        `overflow.names_changed_thinking` knows the error. It is a batch: later requests stay without it. Asks no
        model. Raises the error again, else InvalidRequest, when there is no thinking, or none that may go.
        """
        work = self._learned(self._own(c), None)
        work.attempt = c.attempt
        ledger, work.error = self._planning(work)
        view = work.view.with_edits(all_thinking(work.view))
        own = new_edits(work.view, view)
        broken, after = self._checked(work.view, view)
        if not own or gained(broken, after):
            raise error or InvalidRequest("no thinking can be taken out of this request")
        why = "the provider found its signed thinking behind another prefix"
        return self._recorded(work, view, own, ledger, why, broken, is_needed=True)

    @staticmethod
    def _own(c: Compaction) -> Work:
        if not isinstance(c.state, Work):
            raise InvalidRequest("this takes what fit gave back")
        return c.state

    def _model_of(self, head: Mapping[str, Any]) -> str | None:
        return str(head.get("model") or self.model or "") or None

    # --- one request ----------------------------------------------------------------------------------------------

    def _fit(
        self,
        request: Json,
        conversation: str | None,
        now: float,
        format: str | None,
        force: bool,
        *,
        recorded_only: bool = False,
        focus: str = "",
        fresh: bool = False,
    ) -> Planning:
        fmt, items, head = split(request, format)
        mended: list[tuple[int, int, tuple[Json, ...]]] = []
        try:
            counter = self._counted(self._model_of(head))
            if self._repair:
                items, mended = self._mended(counter.reader, fmt, items, head)
            seen = counter.reader.read(fmt, items, fresh=fresh)
            work = self._work(request, head, seen, counter, conversation, now, mended, fresh)
            self._records.bring(work)
        except (InvalidRequest, MemoryError):
            raise
        except Exception as error:
            return unread(request, items, error)
        is_left_alone = work.batch is not None and work.batch.is_left_alone and not force
        policy = RECORDED if recorded_only or is_left_alone else self.policy
        reason = self._due(work, policy, force)
        if reason and not force and (floor := self._floor(work)):
            return result_of(work, work.view, (), f"{reason}, but its smallest valid form had {floor:,}")
        only_mended = work.fresh and bool(work.mended)  # a way back is recorded for that too
        if reason is None and not only_mended and not self._arrivals(work, policy):
            self._gauge.sent(seen, work.view, work.size, now)
            why = _LEFT_ALONE if is_left_alone else "only what is recorded" if recorded_only else "nothing is due"
            return result_of(work, work.view, (), why)
        work.focus = focus
        result = yield from self._batch(work, policy, reason, force)
        if work.calls:
            vain = None if result.report.new_edits else SummaryError("no batch came of its summary")
            self._breaker.note(work.error or vain, now)
        return result

    def _mended(
        self, reader: Reader, fmt: Any, items: list[Any], head: Mapping[str, Any]
    ) -> tuple[list[Any], list[tuple[int, int, tuple[Json, ...]]]]:
        """The items with their broken places mended, and what stood where."""
        seen = [reader.message(fmt, raw) for raw in items]
        edits = repairs(fmt, seen, head)
        places: list[tuple[int, int, tuple[Json, ...]]] = []
        shift = 0
        for e in edits:
            start = e.start[0] + shift
            places.append((start, start + len(e.replacement), tuple(plain(m) for m in items[e.start[0] : e.end[0]])))
            shift += len(e.replacement) - (e.end[0] - e.start[0])
        return (apply(fmt, items, edits, plain), places) if edits else (items, places)

    def _work(
        self,
        request: Json,
        head: Mapping[str, Any],
        seen: Seen,
        counter: Counting,
        conversation: str | None,
        now: float,
        mended: list[tuple[int, int, tuple[Json, ...]]],
        fresh: bool,
    ) -> Work:
        source = seen.source or seen
        batch = self._records.head(source, fresh=fresh)
        model = self._model_of(head)
        limits = limits_of(
            model,
            head,
            window_tokens=self._window_tokens,
            max_input_tokens=self._max_input_tokens,
            overrides=self._overrides,
            learned=self._gauge.learned_window(model),
            calibrated=self._gauge.is_calibrated(seen),
        )
        view = View(
            format=seen.format,
            messages=source.messages,
            count=counter.count,
            first_unseen=source.first_unseen,
            head=head,
            head_tokens=self._gauge.head_tokens(head, counter.count),
            binds_thinking=models.binds_thinking(model, head),
            keep=self._kept if self._keep_tools or self._keep else None,
        )
        view = replace(view, edits=counter.reader.sized(batch, view)) if batch else view
        view, size = self._gauge.measured(seen, source, view, limits, now)
        name = conversation or (batch.conversation if batch else "")
        return Work(request, head, seen, source, batch, view, limits, size, counter, name, now, mended, fresh)

    @property
    def held(self) -> Store | None:
        """What was taken out while the store could not be written; None where that never happened."""
        return self._records.held

    def _floor(self, work: Work) -> int:
        """Where the last batch ended that could not make it fit, while too little has come since to plan again."""
        floor, budget = self._gauge.facts(work.seen).floor_tokens, work.limits.budget_tokens
        vain = budget is not None and floor > budget and work.size.tokens - floor < budget * MIN_GAIN_RATIO
        return floor if vain else 0

    def _kept(self, result: ResultAt) -> bool:
        return result.tool in self._keep_tools or (self._keep is not None and self._keep(result))

    def _due(self, work: Work, policy: Policy, force: bool) -> str | None:
        if force:
            return "asked for"
        if policy.each_call:
            return policy.due(work.size) or "each call"
        other = self._limit_reason(work) if policy.on_overflow else None
        work.other_limit = other is not None
        return policy.due(work.size) or other

    def _limit_reason(self, work: Work) -> str | None:
        """Another limit of the provider that the request breaks."""
        _, size_bytes, images = work.source.total
        limits = work.limits
        if limits.max_bytes is not None and size_bytes > limits.max_bytes < bytes_of(work.view):
            return f"over the {limits.max_bytes:,} bytes that the provider takes"
        if images and MediaLimits()(work.view, target_of(work, self.policy, force=False)):
            return "more or larger images than the provider takes"
        return None

    def _arrivals(self, work: Work, policy: Policy) -> bool:
        """Whether there are unseen results that `on_arrival` layers should look at."""
        budget, unseen = work.limits.budget_tokens, work.view.messages[work.view.first_unseen :]
        if budget is None or not unseen:
            return False
        largest = max(m.tokens for m in unseen) * work.view.ratio
        return any(looks_at(layer, work.view, budget, largest) for layer in policy.on_arrival)

    # --- a batch --------------------------------------------------------------------------------------------------

    def _batch(self, work: Work, policy: Policy, reason: str | None, force: bool) -> Planning:
        ledger, unwritten = self._planning(work)
        try:
            view = yield from planned(work, policy, reason, force)
            own = new_edits(work.view, view)
            view = view.with_edits(unbound_thinking(work.view, [e for e in own if e.start[0] < work.view.first_unseen]))
            own = new_edits(work.view, view)
            self._gauge.ended(work.seen, view, work.limits, work.leaves_tokens)
            if not own and not (work.mended and work.fresh):
                self._gauge.sent(work.seen, work.view, work.size, work.now_seconds)
                vain = f"{reason}; nothing can go" if reason and not work.leaves_tokens else "nothing is due"
                return result_of(work, work.view, (), vain)
            before, after = self._checked(work.view, view)
            if own and (why := refused(work, view, gained(before, after))):
                return result_of(work, work.view, (), f"no batch: {why}", broken=before)
            why = reason or (own[0].reason if own else "mended")
            work.error = work.error or unwritten
            return self._recorded(work, view, own, ledger, why, before)
        except (InvalidRequest, MemoryError):
            raise
        except Exception as error:
            return result_of(work, work.view, (), str(error) or type(error).__name__, error=error)
        finally:
            work.view.memo.clear()  # callers keep what fit gave them, and with it the view
            let_go(work.source, work.view.memory)

    def _planning(self, work: Work) -> tuple[Ledger, Exception | None]:
        """Makes the view ready for a plan; the error is that of a transcript that could not be written."""
        ledger = Ledger(self.store, self.owner, recall=self._recall)
        work.conversation = work.conversation or work.source.chain[-1].hex()[:16]
        transcript, unwritten = self._transcript(work)
        work.view = replace(
            work.view,
            messages=tuple(work.source.messages),
            refer=ledger.refer,
            enlist=ledger.enlist if self._recall == "ref" else None,
            transcript=transcript,
            memory=memory_of(work.source),
        )
        return ledger, unwritten

    @staticmethod
    def _checked(before: View, after: View) -> tuple[list[Violation], list[Violation]]:
        """What is broken in the request as it was, and in the planned one; the former only where the latter has any."""
        found = violations(after.format, rendered_messages(after), after.head)
        return violations(before.format, rendered_messages(before), before.head) if found else [], found

    def _recorded(
        self,
        work: Work,
        view: View,
        own: tuple[Edit, ...],
        ledger: Ledger,
        reason: str,
        broken: list[Violation],
        *,
        is_needed: bool = False,
    ) -> Compaction:
        error: Exception | None = None
        ours = True
        documents = ledger.documents(work.view, own, work.conversation)
        try:
            if self._records.was_purged(work):
                documents += [d for edit in view.edits for d in taken_out(work.view, edit, work.conversation)]
            batch, ours = self._records.add(work, view, own, documents)
        except StoreError as failure:
            error, budget = failure, work.limits.budget_tokens
            if not is_needed and (budget is None or work.view.tokens <= budget):
                return result_of(work, work.view, (), f"no batch: {failure}", error=failure)
            batch = self._records.hold(work, view, own, documents)
            reason = f"{reason}; the store can't be written, so what was taken out is held in memory"
        if not ours:
            view = replace(view, edits=batch.edits)
            own, reason = (), "another process made a batch first: its edits are sent"
        rewritten = not ours or any(e.start[0] < view.first_unseen for e in own)
        self._gauge.sent(work.seen, view, work.size, work.now_seconds, batch, rewritten=rewritten)
        return result_of(work, view, own, reason, error=error, broken=broken)

    def _transcript(self, work: Work) -> tuple[str, StoreError | None]:
        """The whole conversation as a plain file of the store, one JSON line a message, for the agent's own tools."""
        if self._recall != "files":
            return "", None
        lines = (encode_as_is(m.data).decode() for m in work.source.messages)
        try:
            path = self.store.write_transcript(work.conversation, lines, owner=self.owner)
        except StoreError as failure:
            return "", failure
        return str(path or ""), None

    # --- after an overflow ----------------------------------------------------------------------------------------

    def _recover(self, c: Compaction, error: BaseException | None) -> Planning:
        found = overflow.classify(error) if error is not None else None
        if found is None and error is not None:
            raise error
        old = self._own(c)
        limit = found.limit_tokens if found else None
        size = (found.used_tokens if found else None) or old.view.tokens
        if c.attempt >= MAX_ATTEMPTS:
            why = f"still too large after {c.attempt} tries"
            raise ContextWindowExceeded(why, needed_tokens=size, limit_tokens=limit) from error
        work = self._learned(old, found)
        if found and isinstance(c.request, Mapping) and (change := shorter_answer(work.head, found)):
            report = replace(c.report, reason=f"less room for the answer: {next(iter(change.values())):,} tokens")
            return replace(c, request={**c.request, **change}, attempt=c.attempt + 1, report=report)
        _, size_bytes, images = work.source.total
        measures = {"size_tokens": work.view.tokens, "size_bytes": size_bytes, "images": images, "attempt": c.attempt}
        work.limits = narrowed(work.limits, found, **measures)
        work.attempt = c.attempt + 1
        work.other_limit = found is not None and found.kind in ("media", "request_bytes")
        result = yield from self._batch(work, self.policy, "the provider refused it for its length", force=False)
        if not result.report.new_edits:
            why = "nothing more can be taken out"
            raise ContextWindowExceeded(why, needed_tokens=size, limit_tokens=limit) from error
        return result

    def _learned(self, old: Work, found: overflow.Overflow | None) -> Work:
        """The request measured anew with what the error says: the window, and what the provider counted."""
        if found and found.limit_tokens and found.kind in ("input_tokens", "max_tokens"):
            self._gauge.learn_window(self._model_of(old.head) or "", found.limit_tokens)
        if found and found.used_tokens:
            self._counted_by_provider(old, {"input_tokens": found.used_tokens})
        name = old.conversation or None
        return self._work(old.request, old.head, old.seen, old.counter, name, old.now_seconds, old.mended, old.fresh)
