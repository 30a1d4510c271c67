"""A store in virtual time that posts records of what it does: what a change of it brings is known by running it changed.

Clients read and write blocks, each waiting for its last reply. The head has a cache; it fetches from one of the nodes that hold
a file and writes to all of them at once. A node has a cache and one disk that serves requests one at a time.
"""

import heapq
import random
from collections import OrderedDict, defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Literal

BLOCK = 65536
# Blocks that are read from one node: 1 MiB.
REGION = 16
US = 1000
Wait = tuple[str, Any]


class Lru:
    """A cache of so many blocks."""

    def __init__(self, blocks: int) -> None:
        self.blocks, self._held = blocks, OrderedDict[tuple[int, int], None]()

    def use(self, block: tuple[int, int]) -> bool:
        """Whether it is there; moves it to the front."""
        if block in self._held:
            self._held.move_to_end(block)
            return True
        return False

    def put(self, block: tuple[int, int]) -> tuple[int, int] | None:
        """Bring it in: what goes for it."""
        self._held[block] = None
        self._held.move_to_end(block)
        return self._held.popitem(last=False)[0] if len(self._held) > self.blocks else None


@dataclass(frozen=True)
class Setup:
    """What can be changed."""

    # by client, the nodes that hold its file
    place: dict[str, tuple[str, ...]]
    head_blocks: int = 64
    node_blocks: int = 32
    disk_us: int = 4000
    # which copy is read: of each MiB the same one, each in turn, or that on the node with fewest calls
    read: Literal["by_region", "in_turn", "least_busy"] = "by_region"


@dataclass
class Store:
    """One run."""

    setup: Setup
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    responses: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    # by node ("head" too): reads of blocks, and those that missed
    reads: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    disk_requests: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        self.now, self._crumb = 10**9, 0
        self._head = Lru(self.setup.head_blocks)
        names = sorted({node for nodes in self.setup.place.values() for node in nodes})
        self._nodes = {name: Lru(self.setup.node_blocks) for name in names}
        self._free: dict[str, int] = defaultdict(int)
        # calls without a reply yet
        self._busy: dict[str, int] = defaultdict(int)
        # clocks of machines are apart
        self._clock = {
            name: 0 if name == "head" else 7_000_000 * at for at, name in enumerate(["head", *names])
        }

    def run(self, seed: int, operations: int, blocks: int, writes: float) -> None:
        """All clients at once."""
        waiting: list[tuple[int, int, Generator[int, None, None]]] = []
        for number, client in enumerate(sorted(self.setup.place)):
            chance = random.Random(f"{seed} {client}")
            steps = self._client(client, number + 1, chance, operations, blocks, writes)
            heapq.heappush(waiting, (self.now + number, number, steps))
        while waiting:
            self.now, number, steps = heapq.heappop(waiting)
            for until in steps:
                heapq.heappush(waiting, (until, number, steps))
                break

    def _client(
        self, client: str, file: int, chance: random.Random, operations: int, blocks: int, writes: float
    ) -> Generator[int, None, None]:
        ranks = list(range(blocks))
        chance.shuffle(ranks)
        weights = [1 / (rank + 4) for rank in ranks]
        for block in chance.choices(range(blocks), weights, k=operations):
            is_write = chance.random() < writes
            yield self.now + chance.randrange(50, 150) * US
            start, crumb = self.now, self._new()
            if is_write:
                yield from self._write(client, crumb, file, block)
            else:
                yield from self._read(crumb, file, block, client)
            yield self.now + 10 * US
            self._service(
                "head", crumb, start, "server", "write" if is_write else "read", file, block, client
            )
            self.responses[client].append(self.now - start)

    def _read(self, crumb: int, file: int, block: int, client: str) -> Generator[int, None, None]:
        hit = self._head.use((file, block))
        self._access("head", crumb, "read_hit" if hit else "read_miss", file, block)
        if not hit:
            nodes = self.setup.place[client]
            turn = (crumb if self.setup.read == "in_turn" else block // REGION) % len(nodes)
            node = nodes[turn]
            if self.setup.read == "least_busy":
                node = min((*nodes[turn:], *nodes[:turn]), key=lambda node: self._busy[node])
            yield from self._call(crumb, node, "READ", file, block)
            self._put("head", self._head, crumb, file, block)

    def _write(self, client: str, crumb: int, file: int, block: int) -> Generator[int, None, None]:
        self._access("head", crumb, "write", file, block)
        self._put("head", self._head, crumb, file, block)
        # to all at once: each goes on when it is due
        calls = [
            (self.now, at, self._call(crumb, node, "WRITE", file, block))
            for at, node in enumerate(self.setup.place[client])
        ]
        while calls:
            due, at, steps = heapq.heappop(calls)
            if due > self.now:
                yield due
            for until in steps:
                heapq.heappush(calls, (until, at, steps))
                break

    def _call(self, crumb: int, node: str, op: str, file: int, block: int) -> Generator[int, None, None]:
        call, served = self._new(), self._new()
        self._stitch("head", call, "head", crumb, "split")
        sent = self.now
        self._busy[node] += 1
        self._message("head", call, "head", node, 200 + (BLOCK if op == "WRITE" else 0))
        yield self.now + 30 * US
        self._stitch(node, served, "head", call, "rpc")
        start = self.now
        cache = self._nodes[node]
        yield self.now + 15 * US
        hit = op == "READ" and cache.use((file, block))
        self._access(
            node, served, "write" if op == "WRITE" else "read_hit" if hit else "read_miss", file, block
        )
        if not hit:
            yield from self._disk(node, served, op.lower(), file, block)
            self._put(node, cache, served, file, block)
        yield self.now + 15 * US
        self._message(node, served, node, "head", 200 + (BLOCK if op == "READ" else 0))
        self._service(node, served, start, "server", op, file, block)
        yield self.now + 30 * US
        self._busy[node] -= 1
        self._service("head", call, sent, "client", op, file, block)

    def _disk(self, node: str, crumb: int, op: str, file: int, block: int) -> Generator[int, None, None]:
        queued = self.now
        issued = max(queued, self._free[node])
        self._free[node] = end = issued + self.setup.disk_us * US
        self.disk_requests[node] += 1
        yield end
        clock = self._clock[node]
        self.rows["disk_op"].append(
            {
                "ts": queued + clock, "dur": end - queued, "issued": issued + clock, "node": node, "crumb": crumb,
                "kind": "program", "op": op, "dev": "sda", "pos": (file * 100_000 + block) * BLOCK, "length": BLOCK,
            }
        )  # fmt: skip

    def _put(self, node: str, cache: Lru, crumb: int, file: int, block: int) -> None:
        gone = cache.put((file, block))
        if gone is not None:
            self._access(node, crumb, "evict", *gone)

    def _new(self) -> int:
        self._crumb += 1
        return self._crumb

    def _access(self, node: str, crumb: int, kind: str, file: int, block: int) -> None:
        if kind.startswith("read"):
            self.reads[node][0] += 1
            self.reads[node][1] += kind == "read_miss"
        component = "head" if node == "head" else "node"
        self.rows["buffer_op"].append(
            {
                "ts": self.now + self._clock[node], "node": node, "crumb": crumb, "component": component, "cache": component,
                "kind": kind, "file": file, "pos": block * BLOCK, "length": BLOCK,
            }
        )  # fmt: skip

    def _service(
        self,
        node: str,
        crumb: int,
        start: int,
        kind: str,
        op: str,
        file: int,
        block: int,
        client: str | None = None,
    ) -> None:
        self.rows["service_op"].append(
            {
                "ts": start + self._clock[node], "dur": self.now - start, "node": node, "crumb": crumb, "kind": kind, "op": op,
                "component": "head" if node == "head" else "node", "client": client, "file": file, "pos": block * BLOCK,
                "length": BLOCK, "thread": crumb,
            }
        )  # fmt: skip

    def _stitch(self, node: str, crumb: int, parent_node: str, parent: int, kind: str) -> None:
        self.rows["stitch"].append(
            {
                "ts": self.now + self._clock[node], "node": node, "crumb": crumb, "parent_node": parent_node,
                "parent_crumb": parent, "kind": kind,
            }
        )  # fmt: skip

    def _message(self, node: str, crumb: int, sender: str, receiver: str, length: int) -> None:
        self.rows["network_transmit"].append(
            {
                "ts": self.now + self._clock[node], "node": node, "crumb": crumb, "sender": sender, "receiver": receiver,
                "length": length,
            }
        )  # fmt: skip
