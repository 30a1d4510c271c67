"""What today's Linux is designed to reach: by simulation and by the paper's equations, from a device file."""

import pytest

from iotrail.errors import UsageError
from iotrail.expected import linux

SETTING = {
    "concurrency": 8,
    "stream": 1 << 20,
    "run": 256 << 10,
    "scheduler": "mq-deadline",
    "readahead": 128 << 10,
}


def values(model: str, setting: dict[str, int | str]) -> dict[tuple[str, str], float]:
    """What is expected, by layer and metric."""
    (found,) = linux.expect_all([setting], model, "hdd-10k", 5.0)
    return {(one.layer, one.metric): one.value for one in found}


def test_layers_agree_with_each_other() -> None:
    found = values("linux", SETTING)
    layers = [layer for layer, _ in found]
    assert list(dict.fromkeys(layers)) == ["application", "readahead", "scheduler", "device"]
    time_ns = found["device", "service_ns"] + found["device", "idle_ns"]
    reached = found["scheduler", "request_bytes"] * found["readahead", "useful_share"] / time_ns * 1e9
    assert found["application", "throughput_bytes_per_s"] == pytest.approx(reached, rel=0.1)
    assert found["scheduler", "request_bytes"] > 0.95 * found["readahead", "request_bytes"]


def test_nothing_is_expected_of_less_than_half_a_round_of_bfq() -> None:
    for concurrency, is_known in ((64, True), (128, False)):
        found = values("linux", {**SETTING, "scheduler": "bfq", "concurrency": concurrency})
        assert (("application", "throughput_bytes_per_s") in found) is is_known
        # but whatever it does, these are
        assert [found[of] for of in (("readahead", "asked_ratio"), ("device", "service_ratio"))] == [1.0, 1.0]


def test_as_much_is_asked_for_as_streams_are_far() -> None:
    expected = values("linux", {**SETTING, "concurrency": 64})
    throughput = expected["application", "throughput_bytes_per_s"]
    asked = [
        linux.expect_asked({**SETTING, "concurrency": 64}, "hdd-10k", 5.0, share * throughput)
        for share in (0.1, 0.5, 1.0)
    ]
    assert asked[2] == pytest.approx(expected["readahead", "request_bytes"])
    # windows grow
    assert asked == sorted(asked)
    assert asked[0] < 0.7 * asked[2]
    assert linux.expect_asked(SETTING, "hdd-10k", 1e-6, throughput) is None


def test_the_paper_s_equations_take_the_disk_of_a_device_file() -> None:
    found = values("paper", {**SETTING, "concurrency": 1, "run": 1 << 20})
    # half a turn of 10,000 rpm
    assert found["device", "rotation_ns"] == pytest.approx(3e6)
    assert found["prefetch", "request_bytes"] == 128 << 10
    # 1 MiB at 41 to 65 MB/s
    assert 1048576 / 65e6 < found["device", "transfer_ns"] / 1e9 < 1048576 / 41e6


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(UsageError, match="the paper's equations need a disk with a seek curve"):
        linux.expect_all([SETTING], "paper", "network-volume", 5.0)
    for name in ("scheduler", "readahead"):
        without = {key: value for key, value in SETTING.items() if key != name}
        with pytest.raises(UsageError, match=f"linux expects nothing without a dimension {name}"):
            linux.expect_all([without], "linux", "hdd-10k", 5.0)
    with pytest.raises(UsageError, match="nothere"):
        linux.expect_all([SETTING], "linux", "nothere", 5.0)
    with pytest.raises(UsageError, match="run_bytes"):
        linux.expect_all([{**SETTING, "run": 2 << 20}], "linux", "hdd-10k", 5.0)


def test_values_of_a_device_have_their_base_units() -> None:
    shipped = linux.device_values("hdd-10k")
    assert shipped["disk.revolution"] == pytest.approx(6e6)
    assert shipped["disk.bus.rate"] == 160e6
    assert shipped["disk.read_cache.segment"] == 256 << 10
