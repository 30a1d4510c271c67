"""Cards: findings over the same calls are one, in the order of what mending them saves, with advice for the program."""

import pytest

from iotrail.diagnosis import collect_cards, describe_gain

from .scene import O_APPEND, O_CREAT, O_WRONLY, backwards, scattered

KIB, MIB = 1024, 1024 * 1024
US, MS, S = 1_000, 1_000_000, 1_000_000_000


@pytest.fixture
def diagnose(scene, tmp_path, native):
    """The cards of the scene. What holds of all: one place each, findings on one card only, times within the calls."""

    def ask():
        trail = scene.write(tmp_path, native)
        cards = collect_cards(trail)
        assert [card["place"] for card in cards] == list(range(1, len(cards) + 1))
        findings = trail.rows_of("SELECT count(*) AS n FROM all_findings")[0]["n"]
        noted = 0 if any(card["cause"] == "storage_idle" for card in cards) else None
        assert findings - sum(len(card["details"]) for card in cards) in ((0,) if noted == 0 else (0, 1))
        for card in cards:
            assert card["details"][0]["finding"] == card["cause"]
            assert card["findings"] == len(card["details"])
            assert card["gain_share"] is None or 0 <= card["gain_share"] <= 1
        in_calls = trail.rows_of("SELECT io_ns FROM effort")[0]["io_ns"]
        file_cards = [
            c
            for c in cards
            if c["cause"] not in ("file_lock", "lock_waits", "slow_peer", "polling", "mapped_files")
        ]
        assert sum(card["cost_ns"] or 0 for card in file_cards) <= in_calls
        return cards

    return ask


def causes(cards):
    return [card["cause"] for card in cards]


def test_findings_over_the_same_calls_are_one_card(app, diagnose):
    for _ in range(500):
        app.write("/wal", 1, 512, ns=10 * US).call("fsync", "/wal", ns=MS)
    (card,) = diagnose()
    assert card["cause"] == "fsync_per_write"
    assert {detail["finding"] for detail in card["details"]} == {"fsync_per_write", "fsync_bound"}
    assert (card["severity"], card["cost_ns"], card["gain_ns"]) == ("high", 500 * MS, 450 * MS)
    assert card["gain_share"] == pytest.approx(450 / 505)
    assert card["location"] == "/wal, app (pid 1)"
    assert describe_gain(card) == "saves about 450 ms, 89 % of the run"


def test_random_reads_of_a_device_are_one_card(app, diagnose):
    app.read("/db", 5000, 8 * KIB, lambda i: scattered(8 * KIB)(i) + 512, ns=150 * US)
    (card,) = diagnose()
    assert card["cause"] == "random_reads"
    assert {detail["finding"] for detail in card["details"]} >= {
        "random_reads",
        "small_reads",
        "unaligned_reads",
    }


def test_causes_in_different_files_are_cards_of_their_own(app, diagnose):
    app.read("/log", 2000, 4 * KIB, backwards(4 * KIB), ns=500 * US)
    for _ in range(600):
        app.write("/wal", 1, 512, ns=US).call("fsync", "/wal", ns=MS)
    cards = diagnose()
    assert causes(cards)[:2] == ["backward_reads", "fsync_per_write"]
    assert [card["severity"] for card in cards[:2]] == ["high", "high"]
    assert [card["location"].split(",")[0] for card in cards[:2]] == ["/log", "/wal"]


def test_a_file_opened_again_and_again_comes_first(app, diagnose):
    """Opening costs less than the writes between, but without it these would be few and large."""
    for i in range(10_000):
        app.open("/log", O_WRONLY | O_CREAT | O_APPEND, ns=10 * US)
        app.write("/log", 1, 20, at=20 * i, ns=30 * US, call="write").close("/log", ns=2 * US)
    cards = diagnose()
    assert causes(cards) == ["reopened_files"]
    assert {"reopened_files", "tiny_appends"} == {detail["finding"] for detail in cards[0]["details"]}
    assert 300 * MS < cards[0]["gain_ns"] <= 420 * MS


def test_a_small_gain_is_low_whatever_its_share(app, diagnose):
    for _ in range(100):
        app.write("/wal", 1, 512, ns=US).call("fsync", "/wal", ns=500 * US)
    (card,) = diagnose()
    assert card["details"][0]["severity"] == "high"
    assert card["severity"] == "low"


def test_time_of_threads_beside_each_other_is_saved_once(scene, diagnose):
    app = scene.process("app")
    for thread in (app.main, *(app.thread() for _ in range(3))):
        for _ in range(200):
            thread.write(f"/wal{thread.id}", 1, 512, ns=US).call("fsync", f"/wal{thread.id}", ns=4 * MS)
    card = diagnose()[0]
    assert card["cost_ns"] == 4 * 200 * 4 * MS
    assert 700 * MS < card["gain_ns"] < 800 * MS


def test_what_sleeps_beside_is_no_gain(app, diagnose):
    """Nearly all of the working time, but a hundredth of the run."""
    for _ in range(200):
        app.write("/wal", 1, 512, ns=US).call("fsync", "/wal", ns=MS)
    app.wait("sleep", "sleep", ns=20 * S)
    card = diagnose()[0]
    assert card["severity"] == "low"
    assert card["gain_ns"] <= 200 * MS


@pytest.mark.parametrize(
    ("program", "kind", "says"),
    [
        ("postgres", "postgresql", "synchronous_commit"),
        ("mariadbd", "mariadb", "innodb_flush_log_at_trx_commit"),
        ("redis-server", "redis", "appendfsync everysec"),
        ("python3.11", "python", "os.fsync once for many"),
        ("java", "java", "FileChannel.force"),
        ("app", None, "Group commits"),
    ],
)
def test_advice_is_for_the_program(program, kind, says, scene, diagnose):
    main = scene.process(program).main
    for _ in range(200):
        main.write("/data/log", 1, 512, ns=US).call("fsync", "/data/log", ns=MS)
    (card,) = diagnose()
    assert (card["kind"], says in card["advice"]) == (kind, True)


def test_a_library_is_known_by_its_files(scene, diagnose):
    main = scene.process("python3").main
    for _ in range(200):
        main.write("/shop.db-journal", 1, 512, ns=US).call("fdatasync", "/shop.db-journal", ns=MS)
        main.write("/shop.db", 1, 4 * KIB, ns=US).call("fdatasync", "/shop.db", ns=2 * MS)
    (card,) = diagnose()
    assert card["kind"] == "sqlite"
    assert "BEGIN … COMMIT" in card["advice"]


def test_lost_data_comes_before_time(app, diagnose):
    for _ in range(600):
        app.write("/wal", 1, 512, ns=US).call("fsync", "/wal", ns=MS)
    app.call("fsync", "/data", errno=5, result=-1)
    cards = diagnose()
    assert causes(cards)[:2] == ["io_errors", "fsync_per_write"]
    assert cards[0]["gain_ns"] is None


def walk(main):
    for i in range(12_000):
        main.open(f"/src/{i}", ns=20 * US).read(f"/src/{i}", 1, 2 * KIB, ns=10 * US).close(
            f"/src/{i}", ns=5 * US
        )


def test_many_files_are_the_task_of_some_programs(scene, diagnose):
    walk(scene.process("tar").main)
    cards = diagnose()
    assert causes(cards) == ["small_files"]
    assert (cards[0]["severity"], cards[0]["gain_ns"]) == ("low", 0)


def test_many_files_hold_others_up(scene, diagnose):
    walk(scene.process("train").main)
    cards = diagnose()
    assert causes(cards) == ["small_files"]
    assert cards[0]["severity"] in ("high", "medium")


def test_storage_is_not_the_problem_only_if_nothing_else_is(scene, diagnose):
    app = scene.process("app", user_ns=2 * S, system_ns=0)
    app.main.read("/in", 10, MIB, ns=MS).compute(2 * S)
    assert causes(diagnose()) == ["storage_idle"]


def test_storage_idle_gives_way_to_a_cause(scene, diagnose):
    app = scene.process("app", user_ns=2 * S, system_ns=0)
    app.main.read("/in", 10, MIB, ns=MS).compute(2 * S)
    app.thread().wait("sleep", "sleep", ns=S)
    for thread in (app.thread(), app.thread()):
        thread.wait("pthread_mutex_lock", "lock", ns=100 * MS, times=9, object=7)
    cards = diagnose()
    assert causes(cards) == ["lock_waits"]
    assert cards[0]["severity"] in ("high", "medium")


def test_programs_have_cards_of_their_own(scene, diagnose):
    for name in ("one", "two"):
        main = scene.process(name).main
        for _ in range(300):
            main.write(f"/{name}", 1, 512, ns=US).call("fsync", f"/{name}", ns=MS)
    assert [(card["cause"], card["program"]) for card in diagnose()] == [
        ("fsync_per_write", "one"),
        ("fsync_per_write", "two"),
    ]


def test_nothing_has_no_card(diagnose):
    assert diagnose() == []
