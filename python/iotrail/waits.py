"""How what was waited for is called, on the terminal and on the page."""

from typing import Any


def waited_object(wait: dict[str, Any]) -> str:
    """What a row of module waited_for waits for, as far as it is known: a name, an address, a peer."""
    kind = str(wait["waits_for"])
    if wait["peer"] is not None:
        return f"{kind} {'rank' if kind == 'mpi' else 'pid'} {wait['peer']}"
    if wait["object_name"] is not None:
        return f"{kind} {wait['object_name']}"
    # Objects of files, pipes and sockets are hashes, which say nothing without a name.
    address = kind in ("lock", "condition", "barrier") and wait["object"] is not None
    return f"{kind} {wait['object']:#x}" if address else kind
