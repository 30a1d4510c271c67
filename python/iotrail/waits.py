"""How what was waited for is called, on the terminal and on the page."""

from typing import Any


def waited_object(wait: dict[str, Any]) -> str:
    """What a row of module waited_for waits for, as far as it is known: a name, an address, a peer."""
    kind = str(wait["waits_for"])
    name, peer = wait["peer_name"], wait["peer"]
    if peer is not None and kind in ("process", "mpi"):
        return f"{kind} {'rank' if kind == 'mpi' else 'pid'} {peer}"
    text = kind
    # The number in pipe:[4711] says less than who is at the other end.
    if wait["object_name"] is not None and (kind == "lock" or peer is None or wait["object_name"][0] == "/"):
        text = f"{kind} {wait['object_name']}"
    # Objects of files, pipes and sockets are hashes, which say nothing without a name.
    elif kind in ("lock", "condition", "barrier") and wait["object"] is not None:
        text = f"{kind} {wait['object']:#x}"
    if peer is None:
        return text
    return f"{text}, released by {name} (tid {peer})" if kind == "lock" else f"{text} of {name} (pid {peer})"
