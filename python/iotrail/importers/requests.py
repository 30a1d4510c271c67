"""Requests from the events of the Linux block layer, as blktrace records and blkparse prints them.

A request is a row: it starts when it was queued (Q), or issued (D) where the trace has no Q, and ends at its
completion (C). Events of one place (device and start sector) belong together, in the order of time:

- a back merge (M) adds a bio to another request: its own Q is no request;
- a front merge (F) lets a request begin earlier: the request that began behind the bio is no request any more, its
  time counts from the bio in front;
- a split (X) makes a second request at the new sector, queued there and then;
- a requeue (R) and the issue that follows it leave the start as it is;
- of two issues without a requeue or a completion between them the later one counts, where the trace has no Q: the first was
  requeued, which isn't traced, or its completion is missing. From it the time would be that of another request, up to
  the whole trace. Such issues are counted and have no row;
- a completion without a start (the trace began later, or lost it) has `ts` of the completion, `dur` null, and is
  counted;
- a start without completion is unfinished: `dur` null.

blkparse(1) lists the actions; include/uapi/linux/blktrace_api.h has their numbers.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrail.importers.base import DISCARD, FLUSH, READ, WRITE, Actor, BlockRows, Job

# Actions, by their numbers in the kernel.
QUEUE, BACK_MERGE, FRONT_MERGE, REQUEUE, ISSUE, COMPLETE, SPLIT = 1, 2, 3, 6, 7, 8, 13

EVENT = np.dtype(
    [
        ("ts", np.int64),
        ("dev", np.int64),
        # Its row in the trace.
        ("row", np.int64),
        # Where it starts, in sectors of 512 bytes; of a split, where the second part does.
        ("sector", np.int64),
        ("bytes", np.int64),
        ("pid", np.int64),
        ("errno", np.int64),
        ("action", np.int8),
        ("op", np.int8),
    ]
)
Events = npt.NDArray[np.void]
SECTOR = 512
_MINOR_BITS = 20


class Requests:
    """Joins events into rows. Events may come in pieces, each later than the one before."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.rows = BlockRows(job)
        # What still waits for its completion.
        self.open: Events = np.zeros(0, EVENT)
        # pid -> name
        self.names: dict[int, str] = {}
        self.actors: dict[int, Actor] = {}
        self.base = 0
        self.read = 0
        self.completed = self.paired = self.unfinished = self.merged = self.doubled = 0

    def add(self, events: Events) -> None:
        """Add the next events."""
        events["row"] = np.arange(self.read, self.read + len(events))
        self.read += len(events)
        both = np.concatenate([self.open, events])
        ts = both["ts"]
        if (ts[1:] < ts[:-1]).any():
            both = both.take(np.argsort(ts, kind="stable"))
        self._join(both, last=False)

    def finish(self) -> None:
        """Write what never completed, and the tables."""
        self._join(self.open, last=True)
        job = self.job
        job.facts |= {
            "completions": self.completed,
            "completions_with_start": self.paired,
            "unfinished": self.unfinished,
            "merged": self.merged,
        } | ({"issued_twice": self.doubled} if self.doubled else {})
        if alone := self.completed - self.paired:
            job.note(
                f"{alone:,} of {self.completed:,} completions have no start in the trace: their dur is null"
            )
        if self.unfinished:
            many = "requests never complete" if self.unfinished > 1 else "request never completes"
            job.note(f"{self.unfinished:,} {many} in the trace, so no end of it is known: dur is null")
        if self.doubled:
            job.note(
                f"{self.doubled:,} issues are followed by another one at the same place: they were requeued, or the trace lost "
                "their completion; the later one counts"
            )
        self.rows.finish(self.actors.values())

    def _join(self, events: Events, last: bool) -> None:
        events = self._prepared(events)
        if len(events) == 0:
            self.open = events
            return
        action = events["action"]
        complete, queue, issue = action == COMPLETE, action == QUEUE, action == ISSUE
        places = np.empty(len(events), bool)
        places[0] = True
        places[1:] = (
            (events["dev"][1:] != events["dev"][:-1])
            | (events["sector"][1:] != events["sector"][:-1])
            | ((events["op"][1:] == FLUSH) != (events["op"][:-1] == FLUSH))
        )
        # A stretch: the events of a place after its last completion, up to and with the next.
        begins = places.copy()
        begins[1:] |= complete[:-1]
        stretch = np.flatnonzero(begins)
        at = np.arange(len(events))
        end = np.append(stretch[1:], len(at)) - 1
        done = complete[end]
        last_queue = np.maximum.reduceat(np.where(queue, at, -1), stretch)
        last_requeue = np.maximum.accumulate(np.where(action == REQUEUE, at, -1))
        again = last_requeue >= np.repeat(stretch, np.diff(np.append(stretch, len(at))))
        group = np.cumsum(places) - 1
        is_queued = np.bincount(group[queue], minlength=group[-1] + 1) > 0
        first_issue = issue & ~again & ~is_queued[group]
        last_issue = np.maximum.reduceat(np.where(first_issue, at, -1), stretch)
        # issued before the trace began, and requeued since
        if_again = np.minimum.reduceat(np.where(issue, at, len(at)), stretch)
        start = np.maximum(last_queue, last_issue)
        start = np.where((start < 0) & (if_again < len(at)), if_again, start)
        start = self._in_turn(start, end, done, queue | first_issue, group, stretch)
        # What is not told yet is looked at again with the next events.
        told = done | last
        taken = np.zeros(len(events), bool)
        taken[start[told & (start >= 0)]] = True
        left = np.repeat(told, np.diff(np.append(stretch, len(at))))
        self.doubled += int(np.count_nonzero(first_issue & ~taken & left))
        self._write(events, start[done], end[done])
        if last:
            waiting = ~done & (start >= 0)
            self._write(events, start[waiting], None)
            self.open = events[:0]
        else:
            waiting = events[np.repeat(~done, np.diff(np.append(stretch, len(at))))]
            self.open = waiting.take(np.argsort(waiting["ts"], kind="stable"))

    def _prepared(self, events: Events) -> Events:
        """Events in the order of time, by place, without bios that became part of another request."""
        if len(events) == 0:
            return events
        action = events["action"]
        front = np.flatnonzero(action == FRONT_MERGE)
        events["sector"][front] += events["bytes"][front] // SECTOR
        flush = events["op"] == FLUSH
        events["sector"][flush] = 0
        # the second part of a split is queued at its own place
        action[action == SPLIT] = QUEUE
        if flush.any() or (events["dev"] != events["dev"][0]).any():
            order = np.lexsort((flush, events["sector"], events["dev"]))
        else:
            order = np.argsort(events["sector"], kind="stable")
        # take copies records whole, where an index copies them field by field
        events = events.take(order)
        action = events["action"]
        merges = np.flatnonzero((action == BACK_MERGE) | (action == FRONT_MERGE))
        keep = np.ones(len(events), bool)
        if len(merges):
            before = np.maximum.accumulate(np.where(action == QUEUE, np.arange(len(events)), -1))[merges]
            same = (before >= 0) & (events["sector"][before] == events["sector"][merges])
            same &= events["dev"][before] == events["dev"][merges]
            keep[before[same]] = False
            keep[merges] = False
            self.merged += len(merges)
        return events[keep]

    def _in_turn(self, start: Any, end: Any, done: Any, queue: Any, group: Any, stretch: Any) -> Any:
        """Where as many requests of a place began as were completed, the nth completion ends the nth."""
        queued = np.bincount(group[queue], minlength=group[-1] + 1)
        completed = np.bincount(group[end[done]], minlength=group[-1] + 1)
        several = (queued == completed) & (queued > 1)
        if not several.any():
            return start
        chosen = done & several[group[stretch]]
        turns = np.flatnonzero(queue & several[group])
        start = start.copy()
        start[chosen] = np.where(turns < end[chosen], turns, start[chosen])
        return start

    def _write(self, events: Events, start: Any, end: Any | None) -> None:
        """Write requests: indices of their starts (-1 none) and completions (None: there are none)."""
        if len(start) == 0:
            return
        of = events.take(np.where(start >= 0, start, end) if end is not None else start)
        # A request may have grown by merges since it was queued: what completes is what was moved.
        what = events.take(end) if end is not None else of
        ts = of["ts"]
        dur = what["ts"] - ts
        has_start = start >= 0
        pids = np.where(has_start, of["pid"], 0)
        devices, device = _distinct(of["dev"])
        files = [
            self.rows.file(f"/dev/block/{dev >> _MINOR_BITS}:{dev & ((1 << _MINOR_BITS) - 1)}")
            for dev in devices
        ]
        numbers, who = _distinct(pids)
        codes = np.array([self._actor(pid).code for pid in numbers], np.int64)
        op = what["op"].astype(np.int64)
        if end is not None:
            self.completed += len(end)
            self.paired += int(has_start.sum())
        else:
            self.unfinished += len(start)
        self.rows.add(
            ts=self.base + ts,
            dur=dur,
            no_dur=~has_start,
            unfinished=None if end is not None else np.ones(len(ts), bool),
            op=op,
            pos=what["sector"] * SECTOR,
            length=what["bytes"],
            errno=what["errno"] if end is not None else None,
            file=np.array(files, np.int64)[device],
            who=codes[who],
            thread={actor.code: actor.thread for actor in self.actors.values()},
            order=of["row"],
        )

    def _actor(self, pid: int) -> Actor:
        if pid not in self.actors:
            # 0 is the idle task, in whose place interrupts complete requests: nobody issued those
            name = self.names.get(pid, f"pid {pid}") if pid else "unknown"
            self.actors[pid] = Actor.of(self.job, len(self.actors), name, pid, pid)
        return self.actors[pid]


def _distinct(values: Any) -> tuple[list[int], Any]:
    """The few different numbers of a column, and which of them each is."""
    # by hashes; numpy would sort
    found = pa.array(values).dictionary_encode()
    return found.dictionary.to_pylist(), found.indices.to_numpy()


def operation(write: Any, discard: Any, size: Any) -> Any:
    """What a request does, from the bits of its kind; one without bytes is a flush."""
    return np.where(discard, DISCARD, np.where(size == 0, FLUSH, np.where(write, WRITE, READ))).astype(
        np.int8
    )
