"""Settings of the system: made, read back, and put back at the end however the sweep ends."""

import contextlib
import signal
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType

from iotrail.anomaly.space import Value
from iotrail.errors import SweepError
from iotrail.sweep import shell
from iotrail.sweep.journal import TIMEOUT_S, Journal
from iotrail.sweep.spec import Control


class Settings:
    """The settings that a specification's `set` and `get` are for. A context: leaving it puts back what was found. Commands that
    change a setting run in the context that `running` makes."""

    def __init__(
        self, controls: Mapping[str, Control], journal: Journal, running: shell.Running = shell.alone
    ) -> None:
        self._controls = {name: control for name, control in controls.items() if control.set is not None}
        self._journal = journal
        self._running = running
        self._found: dict[str, str] = {}
        self._current: dict[str, Value] = {}

    def __enter__(self) -> "Settings":
        """Reads what is set now.

        Raises:
            SweepError: a command fails or takes too long, or there is none to read a setting.
        """
        for name, control in self._controls.items():
            if control.get is None:
                raise SweepError(
                    f"{name}: no command reads what is set now", "add get, so that it can be put back"
                )
            self._found[name] = self._get(name, control)
        for name, value in self._found.items():
            self._journal.add(restore=self._command(name, value))
        return self

    def _command(self, name: str, value: Value) -> str:
        return shell.fill(self._controls[name].set or "", {"value": value})

    def _get(self, name: str, control: Control) -> str:
        said = shell.run(control.get or "", TIMEOUT_S)
        if said.status != 0:
            raise SweepError(f"{name}: {control.get}: {said.why(TIMEOUT_S)}")
        return said.out.strip()

    def apply(self, setting: Mapping[str, Value]) -> None:
        """Makes a setting, and reads it back.

        Raises:
            SweepError: a command fails or takes too long, or says another value afterwards.
        """
        for name, control in self._controls.items():
            value = setting[name]
            if self._current.get(name) == value:
                continue
            self._current.pop(name, None)
            command = self._command(name, value)
            said = shell.run(command, TIMEOUT_S, self._running)
            if said.status != 0:
                raise SweepError(f"{name}: {command}: {said.why(TIMEOUT_S)}")
            if control.is_read_back and not _is_same(got := self._get(name, control), value):
                raise SweepError(
                    f"{name}: set to {value}, but {control.get} says {got!r}",
                    "the value is refused, or get prints something else beside it",
                )
            self._current[name] = value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _undisturbed():
            failed = [why for name in reversed(self._found) if (why := self._put_back(name))]
            if self._found and not failed:
                self._journal.add(restored=True)
        if failed:
            before = f"{error}; " if isinstance(error, SweepError) else ""
            raise SweepError(f"{before}cannot put back {'; '.join(failed)}", "put it back by hand") from error

    def _put_back(self, name: str) -> str | None:
        """Sets what was found. Returns why that failed."""
        control, value = self._controls[name], self._found[name]
        try:
            if control.is_read_back and self._get(name, control) == value:
                return None
            command = self._command(name, value)
            said = shell.run(command, TIMEOUT_S, self._running)
            if said.status != 0:
                return f"{name}: {command}: {said.why(TIMEOUT_S)}"
            if not control.is_read_back:
                return None
            got = self._get(name, control)
        except SweepError as failure:
            return failure.message
        return None if got == value else f"{name}: set to {value}, but {control.get} says {got!r}"


def _is_same(got: str, value: Value) -> bool:
    if got == str(value):
        return True
    try:
        return float(got) == float(value)
    except ValueError:
        return False


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Without Ctrl-C and SIGTERM: they come again when this is left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, _: came.append(number)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    for number in came:
        signal.raise_signal(number)
