"""The command line: every command's help and exit status, migrations, tokens, configuration, import, verify."""

import concurrent.futures
import contextlib
import json
import uuid

import pytest

from checker import audit_checker
from support import servers
from support.client import Client
from support.node import Node
from support.tables import query, seat_statuses
from support.waiting import wait_until
from support.warm_truth import differences, prefix

# What is damaged here is mended when it is asked for, not before.
NODE_SETTINGS = {"repair_interval": "1h"}
COMMANDS = ["serve", "migrate", "import", "token", "verify", "reconcile", "status", "check-config", "version"]
DONE, FAILED, USAGE = 0, 1, 2


def expect(done, status, *texts):
    """The finished command ended with `status` and said these texts."""
    said = done.stdout + done.stderr
    assert done.returncode == status, f"{done.args}: {done.returncode}\n{said}"
    for text in texts:
        assert text in said, said
    return done


# --- help and usage ------------------------------------------------------------------------------------------


def test_help_of_all(run_holdfast):
    done = expect(run_holdfast("--help"), DONE, *COMMANDS)
    assert not done.stderr
    with open(servers.CLONE / "include/holdfast/config.def", encoding="utf-8") as settings:
        for line in settings:
            if line.startswith("CONFIG("):
                assert "--" + line[7:].partition(",")[0] in done.stdout, line


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each(run_holdfast, command):
    done = expect(run_holdfast(command, "--help"), DONE, f"holdfast {command}")
    assert not done.stderr


def test_no_command_is_wrong_usage(run_holdfast):
    expect(run_holdfast(), USAGE, "usage")


@pytest.mark.parametrize("words", [["nonsense"], ["version", "x"], ["serve", "x"], ["migrate", "x"], ["check-config", "x"],
                                   ["token"], ["token", "--org", "a"], ["import"], ["import", "--org", "a", "e"],
                                   ["import", "e", "f.csv"], ["verify", "x"], ["verify", "--org", "a b"],
                                   ["verify", "--nonsense", "1"], ["token", "--org", "a b", "--user", "u"],
                                   ["reconcile", "x"], ["reconcile", "--org", "a b"], ["reconcile", "--event", "a b"],
                                   ["reconcile", "--nonsense", "1"], ["status", "x"]], ids=" ".join)
def test_wrong_words_are_wrong_usage(run_holdfast, words):
    done = run_holdfast(*words)
    assert done.returncode == USAGE and done.stderr.strip() and not done.stdout


def test_version(run_holdfast):
    assert expect(run_holdfast("version"), DONE).stdout.startswith("holdfast ")


# --- settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, value", [
    ("workers", "0"), ("workers", "65"), ("workers", "two"), ("workers", ""), ("workers", "1.5"), ("workers", "99999999999999"),
    ("request_timeout", "5 parsecs"), ("request_timeout", "1ms"), ("request_timeout", "-5s"), ("body_max", "1MB!"),
    ("body_max", "0"), ("rate_limits", "maybe"), ("log_level", "loud"), ("hot_shards", "63"), ("listen", "here"),
    ("listen", "127.0.0.1:99999"), ("trusted_proxies", "10.0.0.0/33"), ("trusted_proxies", "x"), ("node_id", "a b"),
])
def test_a_bad_value_is_an_error_that_names_its_setting(log_folder, database_url, name, value):
    """Before anything starts, from check-config as from serve; as a flag as in the environment."""
    for command in ("check-config", "serve"):
        for done in (Node(log_folder, database_url, **{name: value}).command(command, timeout=20),
                     Node(log_folder, database_url).command(command, f"--{name}={value}", timeout=20)):
            assert done.returncode in (FAILED, USAGE) and name in done.stderr.lower(), done


def test_an_unknown_setting_is_an_error(log_folder, database_url):
    expect(Node(log_folder, database_url, no_such_thing=1).command("check-config"), USAGE, "HOLDFAST_NO_SUCH_THING")
    expect(Node(log_folder, database_url).command("check-config", "--no-such-thing=1"), USAGE, "no-such-thing")


def in_force(done):
    return dict(line.split(" = ", 1) for line in expect(done, DONE).stdout.splitlines() if " = " in line)


def test_a_flag_beats_the_environment_which_beats_the_file(log_folder, database_url):
    path = log_folder / f"{uuid.uuid4().hex}.conf"
    path.write_text("# a comment\nworkers = 3\nloops = 2\nbatch_max = 7\n")
    node = Node(log_folder, database_url, loops=4, batch_max=8)
    settings = in_force(node.command("check-config", f"--config={path}", "--batch-max", "9"))
    assert (settings["workers"], settings["loops"], settings["batch_max"]) == ("3", "4", "9")


@pytest.mark.parametrize("text", ["nonsense = 1\n", "workers\n", "= 3\n", "workers = 0\n"])
def test_a_bad_file_is_an_error(log_folder, database_url, text):
    path = log_folder / f"{uuid.uuid4().hex}.conf"
    path.write_text(text)
    done = Node(log_folder, database_url).command("check-config", f"--config={path}")
    assert done.returncode == USAGE and path.name in done.stderr, done


def test_a_file_that_is_not_there_is_an_error(log_folder, database_url):
    assert Node(log_folder, database_url).command("check-config", "--config=/nowhere/x.conf").returncode == USAGE


def test_a_secret_is_never_printed(log_folder, database_url, empty_redis):
    node = Node(log_folder, database_url, empty_redis, jwt_secret="a very secret secret, longer than 32", api_keys="org:key-x")
    done = expect(node.command("check-config"), DONE)
    password = database_url.partition("@")[0].rpartition(":")[2]
    for secret in ("very secret", "key-x", password):
        assert secret not in done.stdout + done.stderr


def test_a_secret_may_come_from_a_file(log_folder, database_url, org):
    path = log_folder / "secret.txt"
    path.write_text("the secret that stands in a file of its own\n")
    node = Node(log_folder, database_url, jwt_secret_file=path)
    del node.settings["jwt_secret"]
    node.settings["jwt_secret_file"] = path
    token = expect(node.command("token", "--org", org, "--user", "u"), DONE).stdout.strip()
    node.start()
    try:
        Client(node, org, token=token).get("/api/events").expect(200)
    finally:
        node.stop()


def test_doubts_are_warnings(log_folder, database_url):
    done = expect(Node(log_folder, database_url, drain_delay="30s").command("check-config"), DONE, "warning:")
    for name in ("redis_url", "rate_limits", "drain_delay", "standby"):
        assert name in done.stderr, done.stderr


# --- migrate -------------------------------------------------------------------------------------------------


@pytest.fixture
def empty_database(postgres_url):
    name = f"holdfast_tools_{uuid.uuid4().hex[:8]}"
    url = servers.make_database(postgres_url, name)
    yield url
    import psycopg2
    with contextlib.closing(psycopg2.connect(postgres_url)) as connection:
        connection.autocommit = True
        connection.cursor().execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def its_db(empty_database):
    import psycopg2
    connection = psycopg2.connect(empty_database)
    connection.autocommit = True
    yield connection
    connection.close()


def test_migrate_twice(log_folder, empty_database, its_db):
    node = Node(log_folder, empty_database)
    expect(node.command("migrate"), DONE)
    first = query(its_db, "SELECT * FROM schema_migrations ORDER BY number")
    assert [row.number for row in first] == list(range(1, len(first) + 1)) and all(row.checksum for row in first)
    expect(node.command("migrate"), DONE, "0 migrations applied")
    assert query(its_db, "SELECT * FROM schema_migrations ORDER BY number") == first


def test_migrate_two_at_once(log_folder, empty_database, its_db):
    node = Node(log_folder, empty_database)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        ends = [each.result() for each in [pool.submit(node.command, "migrate") for _ in range(4)]]
    applied = [int(expect(done, DONE).stdout.split()[0]) for done in ends]
    assert sum(applied) == len(query(its_db, "SELECT 1 FROM schema_migrations"))


def test_two_nodes_start_together_on_an_empty_database(log_folder, empty_database, org):
    nodes = [Node(log_folder, empty_database).spawn() for _ in range(2)]
    try:
        for node in nodes:
            node.await_listening()
        admin = Client(nodes[0], org, "admin", "admin")
        admin.as_user("u").at(nodes[1]).held(admin.make_event(1), "A-1")
    finally:
        for node in nodes:
            node.stop()


def test_an_altered_migration_is_refused(log_folder, empty_database, its_db):
    node = Node(log_folder, empty_database)
    expect(node.command("migrate"), DONE)
    its_db.cursor().execute("UPDATE schema_migrations SET checksum = 'altered' WHERE number = 1")
    expect(node.command("migrate"), FAILED, "0001")
    with pytest.raises(AssertionError, match="ended with 1"):
        node.start()


def test_a_node_starts_on_the_schema_of_a_newer_version(log_folder, empty_database, its_db):
    """Migrations only expand, so that an installation can be renewed node by node, and go back."""
    node = Node(log_folder, empty_database)
    expect(node.command("migrate"), DONE)
    its_db.cursor().execute("INSERT INTO schema_migrations (number, name, checksum) VALUES (9999, '9999_later', 'x')")
    done = node.command("migrate")
    assert done.returncode == DONE and "9999_later" in done.stderr
    node.start()
    node.stop()
    assert "schema_is_newer" in node.log_text()


def test_a_migration_in_between_that_nobody_knows_is_refused(log_folder, empty_database, its_db):
    node = Node(log_folder, empty_database)
    expect(node.command("migrate"), DONE)
    its_db.cursor().execute("INSERT INTO schema_migrations (number, name, checksum) VALUES (0, '0000_other', 'x')")
    expect(node.command("migrate"), FAILED, "0000_other")


def test_without_auto_migrate_serve_waits_for_the_schema(log_folder, empty_database):
    """So that nodes and the job that migrates may be started in any order."""
    node = Node(log_folder, empty_database, auto_migrate="off").spawn()
    try:
        wait_until(lambda: "waiting_for_postgres" in node.log_text(), timeout=20)
        expect(node.command("migrate"), DONE)
        node.await_listening()
    finally:
        node.stop()


@pytest.mark.parametrize("command", ["migrate", "verify"])
def test_a_database_that_is_not_there_is_a_failure(log_folder, command):
    done = Node(log_folder, "postgresql://127.0.0.1:1/none").command(command, timeout=30)
    assert done.returncode == FAILED and done.stderr.strip()
    done = Node(log_folder, "").command(command, timeout=30)
    assert done.returncode == FAILED and done.stderr.strip()


# --- token ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role, status", [("user", 403), ("agent", 403), ("service", 403), ("admin", 201)])
def test_a_minted_token_has_its_role(node, org, role, status):
    done = expect(node.command("token", "--org", org, "--user", "somebody", "--role", role, "--ttl", "1h"), DONE)
    caller = Client(node, org, token=done.stdout.strip())
    body = {"name": "e", "kind": "event", "status": "on_sale"}
    assert caller.put("/api/events/e", body).status == status


@pytest.mark.parametrize("words", [["--role", "root"], ["--ttl", "soon"], ["--ttl", "0"], ["--ttl", "-1h"], ["--ttl", "1y"]])
def test_a_token_that_cannot_be(node, words):
    assert node.command("token", "--org", "o", "--user", "u", *words).returncode == USAGE


def test_a_token_needs_a_secret(log_folder, database_url):
    node = Node(log_folder, database_url, jwt_secret="")
    expect(node.command("token", "--org", "o", "--user", "u"), FAILED, "jwt_secret")


def test_a_token_of_each_kid(start_node, org):
    node = start_node(jwt_secret="a:the first secret of two and long enough,b:the second secret of two and long enough")
    for kid in ("a", "b"):
        done = expect(node.command("token", "--org", org, "--user", "u", "--kid", kid), DONE)
        Client(node, org, token=done.stdout.strip()).get("/api/events").expect(200)
    assert node.command("token", "--org", org, "--user", "u", "--kid", "c").returncode == FAILED


# --- import --------------------------------------------------------------------------------------------------


def test_import(node, admin, client, org, db, log_folder):
    event = admin.make_event(0)
    path = log_folder / f"{event}.csv"
    path.write_text("seat_id,section,row,number,price\nA-1,main,A,1,100\nA-2,main,A,2,100\n")
    done = expect(node.command("import", "--org", org, event, path), DONE)
    assert json.loads(done.stdout) == {"imported": 2, "updated": 0, "errors": []}
    assert seat_statuses(db, org, event) == {"A-1": "available", "A-2": "available"}
    client.held(event, "A-1")
    done = expect(node.command("import", event, path, "--org", org), DONE)
    assert json.loads(done.stdout) == {"imported": 0, "updated": 0, "errors": []}


def test_import_of_a_bad_file(node, admin, org, db, log_folder):
    event = admin.make_event(0)
    path = log_folder / f"{event}.csv"
    path.write_text("seat_id,section,row,number\nA-1,main,A,1\nA 2,main,A,2\n")
    done = expect(node.command("import", "--org", org, event, path), FAILED)
    [error] = json.loads(done.stdout)["errors"]
    assert (error["line"], error["field"]) == (3, "seat_id")
    assert seat_statuses(db, org, event) == {}


def test_import_into_nothing(node, org, log_folder):
    path = log_folder / "some.csv"
    path.write_text("seat_id,section,row,number\nA-1,main,A,1\n")
    expect(node.command("import", "--org", org, "no-such-event", path), FAILED, "event_not_found")
    expect(node.command("import", "--org", org, "e", log_folder / "no-such-file.csv"), FAILED, "no-such-file.csv")


def test_the_demo_houses_can_be_imported(node, admin, client, org):
    for name, least in (("cabin-a320", 180), ("cabin-b777", 331), ("theatre", 1000)):
        event = admin.make_event(0, event=name)
        done = expect(node.command("import", "--org", org, event, servers.CLONE / f"db/demo/{name}.csv"), DONE)
        assert json.loads(done.stdout)["imported"] >= least
        assert client.get(f"/api/events/{event}").json["seat_count"] >= least


# --- verify --------------------------------------------------------------------------------------------------


def verify(node, org, event, status):
    done = expect(node.command("verify", "--org", org, "--event", event), status)
    report = json.loads(done.stdout)
    assert report["ok"] == (status == DONE)
    return report


@pytest.fixture
def lived_in(client, other, admin):
    """An event with a history: A-1 held, A-2 sold, A-3 released and held anew, an area in use, A-5 blocked."""
    event = admin.make_event(6, areas=[{"area_id": "floor", "name": "Floor", "capacity": 9}])
    client.hold(event, "A-1", areas=[{"area_id": "floor", "quantity": 2}]).expect(201)
    client.confirm(client.held(event, "A-2", cart="c2")["hold_id"]).expect(200)
    client.cancel(client.held(event, "A-3", cart="c3")["hold_id"]).expect(200)
    other.held(event, "A-3")
    admin.post("/api/admin/seats/block", {"event_id": event, "seat_ids": ["A-5"], "reason": "x"}).expect(200)
    return event


def test_verify_finds_nothing_where_nothing_is(node, org, admin, lived_in, check_audit):
    report = verify(node, org, lived_in, DONE)
    assert report["violations"] == [] and report["seats"] == 6 and report["holds"] >= 4
    through_api = admin.get(f"/api/admin/verify/{lived_in}").expect(200).json
    assert (through_api["ok"], through_api["violations"]) == (True, [])
    assert (through_api["seats"], through_api["holds"]) == (report["seats"], report["holds"])
    check_audit(lived_in)


FAULTS = {
    "a version ahead of its story": ("A-1", "UPDATE seats SET version = version + 1 WHERE {seat}"),
    "an owner that the story doesn't know": ("A-1", "UPDATE seats SET user_id = 'thief' WHERE {seat}"),
    "an end that the story doesn't know": ("A-1", "UPDATE seats SET held_until = held_until + interval '1 h' WHERE {seat}"),
    "a seat freed in silence": (
        "A-1", "UPDATE seats SET status = 'available', hold_id = NULL, held_until = NULL WHERE {seat}"),
    "a sale without its chain": ("A-4", "UPDATE seats SET status = 'sold', hold_id = gen_random_uuid() WHERE {seat}"),
    "a version missing": ("A-3", "DELETE FROM audit_log WHERE {seat} AND version = 2"),
    "the last word missing": ("A-3", "DELETE FROM audit_log WHERE {seat} AND version = 3"),
    "a version twice": ("A-3", "UPDATE audit_log SET version = 1 WHERE {seat} AND version = 2"),
    "two holds at once": ("A-3", "DELETE FROM audit_log WHERE {seat} AND version = 2; "
                                 "UPDATE audit_log SET version = 2 WHERE {seat} AND version = 3; "
                                 "UPDATE seats SET version = 2 WHERE {seat}"),
    "a sale by somebody else": ("A-2", "UPDATE audit_log SET hold_id = gen_random_uuid() WHERE {seat} AND action = 'seat_sold'"),
    "a line that ended in silence": (
        "A-1", "UPDATE seat_holds SET status = 'expired', ended_at = now(), reason = 'ttl_expired' WHERE {seat}"),
    "a line that is gone": ("A-2", "DELETE FROM seat_holds WHERE {seat}"),
    "a sale after the end": (
        "A-2", "UPDATE audit_log SET at = at + interval '1 day' WHERE {seat} AND action = 'seat_sold'"),
    "an area's count": (None, "UPDATE areas SET held = held + 1 WHERE {event}"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_verify_finds_planted_faults(node, admin, org, db, lived_in, name):
    seat, statements = FAULTS[name]
    where_event = f"org_id = '{org}' AND event_id = '{lived_in}'"
    db.cursor().execute(statements.format(event=where_event, seat=f"{where_event} AND seat_id = '{seat}'"))
    report = verify(node, org, lived_in, FAILED)
    assert report["violations"]
    for violation in report["violations"]:
        assert violation["kind"] and violation["seat_id"] == (seat or "floor"), violation
        assert isinstance(violation["hold_ids"], list)
    through_api = admin.get(f"/api/admin/verify/{lived_in}").expect(200).json
    assert through_api["ok"] is False
    assert [v["kind"] for v in through_api["violations"]] == [v["kind"] for v in report["violations"]]
    assert audit_checker.check_event(db, org, lived_in), "the independent checker finds it too"


def test_verify_of_one_event_does_not_look_at_others(node, client, admin, org, db, lived_in):
    event = admin.make_event(1)
    client.held(event, "A-1")
    db.cursor().execute("UPDATE seats SET version = version + 1 WHERE org_id = %s AND event_id = %s", (org, event))
    verify(node, org, event, FAILED)
    verify(node, org, lived_in, DONE)
    done = node.command("verify", "--org", org)
    assert done.returncode == FAILED


# --- reconcile and status ------------------------------------------------------------------------------------


NOBODY = "redis://127.0.0.1:1/0"
NO_POSTGRES = "postgresql://holdfast@127.0.0.1:1/nowhere"


def lines_of(done):
    """The lines about events, by event, and the last line."""
    *lines, total = done.stdout.splitlines()
    return {line.split()[1].rstrip(":"): line for line in lines}, total


def test_reconcile_makes_redis_as_postgres(node, client, admin, org, db, redis):
    first, second, untouched = (admin.make_event(3) for _ in range(3))
    closed = admin.make_event(3, status="scheduled")
    client.held(first, "A-1", "A-2")
    client.held(second, "A-1")
    redis.delete(f"{prefix(org, first)}:seat:A-1", f"{prefix(org, first)}:seat_holds")
    redis.set(f"{prefix(org, second)}:seat:Z-1", "{}")
    redis.rpush(f"{prefix(org, closed)}:seat:A-1", "x")
    lines, total = lines_of(expect(node.command("reconcile", "--org", org), DONE))
    assert lines.keys() == {first, second, untouched}
    assert "held 2, restored 2, removed 0" in lines[first] and lines[first].startswith(org)
    assert "held 1, restored 0, removed 1" in lines[second]
    assert "held 0, restored 0, removed 0" in lines[untouched]
    assert total == "3 events: restored 2, removed 1, failed 0"
    for event in (first, second, untouched):
        assert not differences(db, redis, org, event)
    lines, total = lines_of(expect(node.command("reconcile", "--org", org, "--event", closed), DONE))
    assert lines.keys() == {closed} and total == "1 events: restored 0, removed 1, failed 0"
    assert lines_of(expect(node.command("reconcile", "--org", "nobody"), DONE))[1].startswith("0 events")
    assert closed not in expect(node.command("reconcile"), DONE, first, second).stdout


def test_reconcile_that_can_not_is_a_failure(log_folder, database_url, empty_redis, node, org):
    expect(node.command("reconcile", "--org", org, "--event", "no-such-event"), FAILED, "no-such-event")
    expect(Node(log_folder, database_url).command("reconcile"), FAILED, "redis_url")
    expect(Node(log_folder, database_url, NOBODY).command("reconcile"), FAILED, "Redis")
    assert expect(Node(log_folder, NO_POSTGRES, empty_redis).command("reconcile"), FAILED).stderr


def test_status_shows_stores_nodes_and_sales(node, client, admin, org, db, redis):
    event = admin.make_event(6)
    client.held(event, "A-1", "A-2")
    client.confirm(client.held(event, "A-3", cart="c2")["hold_id"]).expect(200)
    done = expect(node.command("status"), DONE, f"{org} {event}  held 2, sold 1, available 3", node.node_id,
                  f"at {node.settings['listen']}", redis.info("server")["run_id"])
    assert not done.stderr
    [(version, system)] = query(db, "SELECT current_setting('server_version'), system_identifier::text "
                                "FROM pg_control_system()")
    assert f"version {version}, system {system}" in done.stdout
    assert "round trip" in done.stdout and "heartbeat" in done.stdout


def test_status_without_a_store(log_folder, database_url, empty_redis):
    expect(Node(log_folder, database_url).command("status"), DONE, "redis     off", "postgres  up")
    expect(Node(log_folder, database_url, NOBODY).command("status"), DONE, "redis     down", "postgres  up")
    done = expect(Node(log_folder, NO_POSTGRES, empty_redis).command("status"), FAILED, "postgres  down", "redis     up")
    assert done.stderr


# --- serve ---------------------------------------------------------------------------------------------------


def test_two_live_nodes_of_one_name_are_one_too_many(node, log_folder, database_url, empty_redis):
    twin = Node(log_folder, database_url, empty_redis, node_id=node.node_id)
    twin.log_path = log_folder / f"{node.node_id}-twin.log"
    with pytest.raises(AssertionError, match="ended with 1"):
        twin.start(timeout=40)
    assert node.running


def test_an_address_in_use_is_a_failure(node, log_folder, database_url):
    taken = Node(log_folder, database_url, listen=f"{node.host}:{node.port}")
    with pytest.raises(AssertionError, match="ended with 1"):
        taken.start()


def test_a_second_sigterm_ends_at_once(start_node, client):
    import signal
    import time
    node = start_node(drain_delay="30s", drain_timeout="60s")
    node.signal(signal.SIGTERM)
    wait_until(lambda: client.at(node).get("/ready").status == 503, what="the first one is taken")
    started = time.monotonic()
    node.signal(signal.SIGTERM)
    node.process.wait(10)
    assert time.monotonic() - started < 5
    node.process = None
