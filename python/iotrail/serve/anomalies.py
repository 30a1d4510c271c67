"""The page of a sweep's anomalies: computed once for each snapshot of a trail, in a thread, because it takes seconds."""

import sys
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path

from iotrail import snapshot
from iotrail.anomaly.window import Window, read_windows
from iotrail.errors import IotrailError, ServeError
from iotrail.page import Html, document, tag
from iotrail.serve.readers import limit
from iotrail.trail import Trail

# How often a page that is being computed is asked for again, in seconds: HTML, 7.5.2, the header `Refresh`.
AGAIN = {"refresh": "1"}


@dataclass(frozen=True)
class _Made:
    """What was made of a snapshot: a page, or why there is none."""

    of: tuple[int, int]
    content: bytes | IotrailError


class Anomalies:
    """The page of anomalies of one trail. Used by one thread; another one computes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._made: _Made | None = None
        self._thread: threading.Thread | None = None

    def page(self) -> bytes | None:
        """The page of the newest snapshot; None while it is being computed, which this starts.

        Raises:
            TrailError: there is no trail.
            IotrailError: there is no page: the trail has no sweep, or nothing is expected of it.
        """
        # `iotrail sweep --confirm` puts another trail in its place, whose snapshots are numbered anew.
        newest = snapshot.newest_number(self._path), self._path.stat().st_ino
        if self._made is not None and self._made.of == newest:
            if isinstance(self._made.content, IotrailError):
                raise self._made.content
            return self._made.content
        if self._thread is None or not self._thread.is_alive():
            # A daemon: Ctrl-C ends the server without waiting for it.
            self._thread = threading.Thread(target=self._make, args=(newest,), name="anomalies", daemon=True)
            self._thread.start()
        return None

    def _make(self, newest: tuple[int, int]) -> None:
        content: bytes | IotrailError
        try:
            content = self._render()
        except IotrailError as error:
            content = error
        except Exception:
            # Asking again would only fail again, and nobody would see why.
            traceback.print_exc(file=sys.stderr)
            content = ServeError(
                f"{self._path}: the anomalies can't be computed", "the server's terminal says why"
            )
        self._made = _Made(newest, content)

    def _render(self) -> bytes:
        # these load slowly, and few trails have a sweep
        from iotrail.anomaly import answer
        from iotrail.anomaly.page import render

        trail = Trail(self._path)
        limit(trail)
        samples = answer.read(trail)
        found = answer.find(samples, str(self._path))
        return render(found, samples, read_windows(trail), link)


def has_sweep(path: Path) -> bool:
    """Whether a trail is there and has measurements of a sweep."""
    try:
        return Trail(path).rows.get("measurement", 0) > 0
    except IotrailError:
        return False


def link(window: Window) -> Html:
    """A link to the view I/O, of a measurement's window."""
    return Html(
        f'<a href="./#view=io&amp;part={window.ts}-{window.end_ts}" target="_top">report of this measurement</a>'
    )


def waiting(path: Path) -> bytes:
    """The page until there is one; served with `AGAIN`."""
    return document("anomalies", str(path), [tag("p", "The anomalies are being computed.", of="verdict")])


def refused(path: Path, error: IotrailError) -> bytes:
    """The page where there can't be one."""
    hint = [tag("p", error.hint, of="note")] if error.hint else []
    return document("anomalies", str(path), [tag("p", error.message, of="verdict"), *hint])
