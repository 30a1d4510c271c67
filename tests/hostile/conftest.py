"""What the cases need: the recorder and the way to build and record programs, as the tests of capture have them."""

from tests.capture.conftest import build, native, record, work

__all__ = ["build", "native", "record", "work"]
