"""Law 1: a client hears "you hold it", "extended", "sold" only of what Postgres has committed."""

import psycopg2
import pytest

from support.bystander import HOLD_ALL_WRITES, all_rows, await_waiting, execute, holding, one_value, trigger
from support.client import Client
from support.swarm import ask, hold_shot, tally
from support.truth import lines_of, seats_of
from support.waiting import wait_until

# One worker, so that what waits behind one transaction becomes one batch; and a slow machine is no fault.
NODE_SETTINGS = {"workers": 1, "request_timeout": "30s"}

FAIL_FOR_DOOMED = "IF NEW.user_id LIKE 'doomed%' THEN RAISE EXCEPTION 'the test says no'; END IF; RETURN NEW;"
SKIP_FOR_DOOMED = "IF NEW.user_id LIKE 'doomed%' THEN RETURN NULL; END IF; RETURN NEW;"


@pytest.fixture
def doomed(admin):
    return admin.as_user("doomed-1")


def assert_nothing_happened(db, redis, org, event, seat="A-1"):
    assert seats_of(db, org, event)[seat] == ("available", None, None)
    assert not lines_of(db, org, event)
    key = f"holdfast:{{org:{org}:event:{event}}}:seat:{seat}"
    wait_until(lambda: not redis.exists(key), what="the lock in Redis is taken back")


# --- a transaction that does not commit ------------------------------------------------------------------------


def test_what_postgres_rolls_back_at_commit_is_no_yes(doomed, event, db, redis, org, prove):
    with trigger(db, "fail_at_commit", "seat_holds", "AFTER INSERT", FAIL_FOR_DOOMED, deferred=True):
        assert doomed.hold_one(event, "A-1").status == 500
        assert_nothing_happened(db, redis, org, event)
    doomed.hold_one(event, "A-1").expect(201)
    prove(event)


def test_a_hold_whose_line_is_silently_not_written_is_no_yes(doomed, event, db, redis, org, prove):
    with trigger(db, "skip_line", "seat_holds", "BEFORE INSERT", SKIP_FOR_DOOMED):
        assert doomed.hold_one(event, "A-1").status == 500
        assert_nothing_happened(db, redis, org, event)
    doomed.hold_one(event, "A-1").expect(201)
    prove(event)


def test_a_hold_whose_seat_is_silently_not_changed_is_no_yes(doomed, event, db, redis, org, prove):
    with trigger(db, "skip_seat", "seats", "BEFORE UPDATE", SKIP_FOR_DOOMED):
        assert doomed.hold_one(event, "A-1").status == 500
        assert_nothing_happened(db, redis, org, event)
    doomed.hold_one(event, "A-1").expect(201)
    prove(event)


def test_a_hold_that_is_not_audited_is_no_yes(doomed, event, db, redis, org, prove):
    """Law 6: the audit row is part of the change."""
    with trigger(db, "skip_audit", "audit_log", "BEFORE INSERT", SKIP_FOR_DOOMED):
        assert doomed.hold_one(event, "A-1").status == 500
        assert_nothing_happened(db, redis, org, event)
    doomed.hold_one(event, "A-1").expect(201)
    prove(event)


@pytest.mark.parametrize("change", ["extend", "confirm", "cancel", "transfer", "patch"])
def test_a_change_that_is_rolled_back_at_commit_is_no_yes(doomed, event, db, org, change, prove):
    hold = doomed.held(event, "A-1", "A-2")
    before = seats_of(db, org, event), lines_of(db, org, event)
    calls = {
        "extend": lambda: doomed.extend(hold["hold_id"]),
        "confirm": lambda: doomed.confirm(hold["hold_id"]),
        "cancel": lambda: doomed.cancel(hold["hold_id"]),
        "transfer": lambda: doomed.post(f"/api/holds/{hold['hold_id']}/transfer", {"to_user_id": "user-2"}),
        "patch": lambda: doomed.patch(f"/api/holds/{hold['hold_id']}", {"remove_seat_ids": ["A-2"]}),
    }
    body = "IF OLD.user_id LIKE 'doomed%' THEN RAISE EXCEPTION 'the test says no'; END IF; RETURN NEW;"
    with trigger(db, "fail_change", "seats", "AFTER UPDATE", body, deferred=True):
        assert calls[change]().status == 500
        assert (seats_of(db, org, event), lines_of(db, org, event)) == before
    after = doomed.get_hold(hold["hold_id"]).expect(200).json
    assert after["status"] == "active" and after["expires_at"] == hold["expires_at"]
    calls[change]().expect(200)
    prove(event)


# --- one of many ---------------------------------------------------------------------------------------------


def as_one_batch(db, database_url, node, plug, shots):
    """The answers to shots that the node's only worker finds waiting when it is done with `plug`."""
    with holding(database_url, HOLD_ALL_WRITES) as bystander:
        first = ask(plug)
        await_waiting(db)
        wires = [ask(a_shot) for a_shot in shots]
        wait_until(lambda: node.metrics()["holdfast_queue_depth"] >= len(shots), what="all of them wait")
        bystander.release()
    assert first.answer().status == 201
    return [wire.answer() for wire in wires]


@pytest.mark.parametrize("deferred", [False, True], ids=["in a statement", "at commit"])
def test_what_fails_for_one_request_of_a_batch_fails_only_that_one(
        admin, doomed, event, db, database_url, node, org, deferred, prove):
    users = [admin.as_user() for _ in range(8)]
    shots = [hold_shot(user, event, f"A-{n + 2}") for n, user in enumerate(users)]
    shots.insert(5, hold_shot(doomed, event, "A-10"))
    when = "AFTER INSERT" if deferred else "BEFORE INSERT"
    split_before = node.metrics()["holdfast_batches_split_total"]
    with trigger(db, "fail_one", "seat_holds", when, FAIL_FOR_DOOMED, deferred=deferred):
        answers = as_one_batch(db, database_url, node, hold_shot(admin.as_user(), event, "A-1"), shots)
    assert answers.pop(5).status == 500
    assert tally(answers) == {(201, None): 8}
    assert node.metrics()["holdfast_batches_split_total"] > split_before
    seats = seats_of(db, org, event)
    assert seats["A-10"][0] == "available"
    assert all(seats[f"A-{n + 2}"][2] == user.user for n, user in enumerate(users))
    prove(event, [answer.json for answer in answers], complete=False)


def test_a_refused_request_of_a_batch_leaves_the_others_alone(admin, event, db, database_url, node, prove):
    users = [admin.as_user() for _ in range(4)]
    shots = [hold_shot(users[0], event, "A-4", "nowhere"), hold_shot(users[1], event, "A-5"),
             hold_shot(users[2], "nothing", "A-6"), hold_shot(users[3], event, "A-7", "A-8")]
    answers = as_one_batch(db, database_url, node, hold_shot(admin.as_user(), event, "A-1"), shots)
    assert [(answer.status, answer.code) for answer in answers] == [
        (404, "seat_not_found"), (201, None), (404, "event_not_found"), (201, None)]
    assert admin.seat_status(event, "A-4") == "available"
    prove(event, [answers[1].json, answers[3].json], complete=False)


# --- a commit that is not known to be durable ----------------------------------------------------------------------


def test_a_commit_that_no_standby_has_confirmed_is_no_yes(start_node, own_postgres, org):
    """A canceled wait for the standby ends with the tag COMMIT and a warning: visible, and perhaps lost."""
    node = start_node(database_url=own_postgres.url(), redis_url="")
    event = Client(node, org, "admin", "admin").make_event(2)
    user = Client(node, org, "user-1")
    db = psycopg2.connect(own_postgres.url())
    db.autocommit = True
    execute(db, "SET synchronous_commit = local")  # our own session waits for nobody
    execute(db, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    execute(db, "SELECT pg_reload_conf()")
    wait_until(lambda: one_value(db, "SHOW synchronous_standby_names") == "nobody")

    wire = ask(hold_shot(user, event, "A-1"))
    in_commit = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'"
    pids = wait_until(lambda: all_rows(db, in_commit), what="the commit waits for its standby")
    assert wire.silent()
    for pid, in pids:
        execute(db, "SELECT pg_cancel_backend(%s)", (pid,))
    answer = wire.answer()
    assert (answer.status, answer.code) == (503, "outcome_unknown")
    assert int(answer.headers["Retry-After"]) >= 1

    execute(db, "ALTER SYSTEM RESET synchronous_standby_names")
    execute(db, "SELECT pg_reload_conf()")
    wait_until(lambda: user.hold_one(event, "A-1").status in (200, 201), timeout=20)
    db.close()
