"""Where batches are recorded: in the journal of the store; in memory while the store takes nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from .errors import StoreError
from .journal import Batch, Journal
from .planning import Work
from .reading import Seen
from .store import Document, MemoryStore, Store
from .types import Edit
from .view import View


class Records:
    """What holds for the conversations of one owner, and what is added to it."""

    def __init__(self, store: Store, owner: str) -> None:
        self.journal = Journal(store, owner)
        self.spare: Journal | None = None
        """Batches that the store did not take."""
        self._saved: set[str] = set()
        """Those of them that are in the store by now."""

    @property
    def held(self) -> Store | None:
        """What was taken out while the store could not be written; None where that never happened."""
        return self.spare.store if self.spare is not None else None

    def head(self, source: Seen, *, fresh: bool = False) -> Batch | None:
        """The batch that holds: the store's, or a later one that could only be held in memory."""
        spare = self.spare.head(source.chain) if self.spare is not None and not fresh else None
        return spare if spare is not None and spare.id not in self._saved else source.batch

    def add(self, work: Work, view: View, own: Sequence[Edit], documents: Sequence[Document]) -> tuple[Batch, bool]:
        """A batch that was planned: the one that holds now, and whether it is ours. Raises StoreError."""
        batch, is_ours = self._put(work, view, own, documents)
        work.batch = batch
        return batch, is_ours

    def was_purged(self, work: Work) -> bool:
        """Whether the store lost under us what earlier batches of the conversation took out. Raises StoreError."""
        parent = work.source.batch
        return parent is not None and self.journal.store.batch(parent.id) is None

    def hold(
        self,
        work: Work,
        view: View,
        own: Sequence[Edit],
        documents: Sequence[Document],
        *,
        upto: int | None = None,
        leave_alone: bool = False,
    ) -> Batch:
        """The same in memory, where the store took nothing."""
        self.spare = self.spare or Journal(MemoryStore(), self.journal.owner)
        parent = self.spare.head(work.source.chain)
        batch, _ = self._commit(self.spare, work, view, own, documents, parent, upto=upto, leave_alone=leave_alone)
        work.batch = batch
        return batch

    def bring(self, work: Work) -> None:
        """Into the store what it could not take before, if it can by now: the request stays the same."""
        if work.fresh or work.batch is None or work.batch is work.source.batch:
            return
        try:
            self._settle(work, work.view)
        except StoreError:
            return  # was told when it was held

    def take_back(self, work: Work, before: View) -> StoreError | None:
        """The edits of `before` in place of those of the batch that holds; the conversation is left alone from now on.

        In memory where the store takes nothing; then its error is given back.
        """
        try:
            self._settle(work, before, leave_alone=True)
        except StoreError as error:
            self.hold(work, before, (), (), upto=_reach(work), leave_alone=True)
            return error
        return None

    def _settle(self, work: Work, view: View, *, leave_alone: bool = False) -> None:
        """The edits of this view wherever the batch holds that holds now, whoever else adds one meanwhile."""
        is_ours, upto = False, _reach(work)
        while not is_ours:
            batch, is_ours = self._put(work, view, (), (), upto=upto, leave_alone=leave_alone)
        work.batch = batch

    def _put(
        self,
        work: Work,
        view: View,
        own: Sequence[Edit],
        documents: Sequence[Document],
        *,
        upto: int | None = None,
        leave_alone: bool = False,
    ) -> tuple[Batch, bool]:
        """Into the store, together with what is held in memory of this conversation."""
        parent = work.source.batch
        held = work.batch if work.batch is not parent and self.held is not None else None
        if held and self.held is not None:
            of_held = self.held.documents(conversation=work.conversation, owner=self.journal.owner, limit=sys.maxsize)
            documents = [*of_held, *documents]
        batch, is_ours = self._commit(
            self.journal, work, view, own, documents, parent, upto=upto, leave_alone=leave_alone
        )
        self._saved |= {held.id} if held and is_ours else set()
        work.source.batch = batch
        return batch, is_ours

    @staticmethod
    def _commit(
        journal: Journal,
        work: Work,
        view: View,
        own: Sequence[Edit],
        documents: Sequence[Document],
        parent: Batch | None,
        *,
        upto: int | None = None,
        leave_alone: bool = False,
    ) -> tuple[Batch, bool]:
        """Onto this parent; where the view was made from another batch, with all its edits, and they alone count."""
        is_whole = upto is not None or parent is not work.batch
        return journal.commit(
            view,
            view.edits if is_whole else own,
            work.source.chain,
            parent,
            documents,
            conversation=work.conversation,
            written_back=work.seen.source is not None,
            as_text=isinstance(work.request, Mapping) and isinstance(work.request.get(view.format.list_key), str),
            fresh=work.fresh,
            mended=[(a - work.seen.ahead, b - work.seen.ahead, old) for a, b, old in work.mended],
            is_whole=is_whole,
            is_left_alone=leave_alone or (work.batch is not None and work.batch.is_left_alone),
            upto=upto,
            now_seconds=work.now_seconds,
        )


def _reach(work: Work) -> int:
    """How many messages the batch that holds covers."""
    return work.batch.key_index if work.batch else 0
