"""When the faults are over: everything heals by itself, tiers become equal, what is free can be sold."""

import time

from checker import audit_checker
from fault.chaos import tiers
from fault.chaos.buyers import AREA, PAYMENT_TIMEOUT_S, seats_of_row
from support.client import Client
from support.swarm import pause, drive

HEAL_S = 45  # a breaker's longest pause is 30 s
EQUAL_S = 5
SELLABLE_S = 5  # after the last TTL
SETTLED_S = 10  # after the last payment_timeout
TAIL_EVENT, TAIL_SEATS = "tail", 12


def nodes_are_well(world):
    """Each node answers /ready with 200 even when strict, that is with each of its stores."""
    for node in world.arena.nodes.values():
        answer = Client(node, world.market.org, token="").get("/ready?strict", timeout=10)
        if answer.status != 200:
            return f"{node.node_id}: {answer.status} {answer.body.decode(errors='replace')}"
    return None


def await_health(world):
    """Buyers go on meanwhile: some things are only noticed when used."""
    deadline = time.monotonic() + HEAL_S
    while world.market.is_open:
        try:
            trouble = nodes_are_well(world)
        except OSError as error:
            trouble = str(error)
        if trouble is None:
            world.say("the nodes are well")
            return
        if time.monotonic() > deadline:
            world.history.finding("not_well", f"{HEAL_S} s after the last fault: {trouble}")
            return
        time.sleep(0.2)


def await_payments(world):
    """No payment hangs: each was decided by its provider, or by a node that asked him."""
    deadline = time.monotonic() + 2 * PAYMENT_TIMEOUT_S + SETTLED_S
    with world.arena.database() as db, db.cursor() as cursor:
        while True:
            cursor.execute("SELECT count(*) FROM payment_intents WHERE status IN ('processing', 'pending')")
            left = cursor.fetchone()[0]
            if left == 0:
                return
            if time.monotonic() > deadline:
                world.history.finding("payment_hangs", f"{left} payments are not decided")
                return
            time.sleep(0.1)


def hold_the_tail(world):
    """A few longer holds, made at each node, so that there is something to compare. Returns who has which."""
    market = world.market

    def hold_one(number):
        node = market.nodes[number % len(market.nodes)]
        user = Client(node, market.org, f"tail-{number}")
        seats = [f"T-{number + 1}"]
        body = {"event_id": TAIL_EVENT, "cart_token": "tail", "seat_ids": seats}
        for _ in range(20):
            answer = yield from market.call(user, "hold", "POST", "/api/holds", body, node=node, event=TAIL_EVENT,
                                            seats=seats, cart="tail")
            if answer is not None and answer.status in (200, 201):
                return user, answer.json["hold_id"]
            yield pause(0.25)
        world.history.finding("not_well", f"no hold at {node.node_id} within 5 s")
        return None

    held = drive([hold_one(number) for number in range(TAIL_SEATS)], timeout=120, patience=20)
    return [each for each in held if each]


def release_the_tail(world, held):
    def release(user, hold_id):
        yield from world.market.call(user, "cancel", "DELETE", f"/api/holds/{hold_id}", node=user.node, hold=hold_id,
                                     event=TAIL_EVENT)

    drive([release(*each) for each in held], timeout=120, patience=20)


def make_tail_event(market):
    market.admin.make_event(seats_of_row("T", TAIL_SEATS), event=TAIL_EVENT, policy={"hold_ttl": 60, "max_hold": 60})


def check_tiers(world):
    """Within 5 s of quiet. What was planted is swept by the minute, or at once when asked for."""
    unswept = {event for event in world.planted_events if not reconcile(world, event)}
    quiet = time.monotonic()
    with world.arena.database() as db, world.arena.redis_connection() as redis:
        while True:
            found = tiers.differences(db, redis, world.market.org, but=unswept)
            if not found:
                world.say(f"tiers are equal {time.monotonic() - quiet:.1f} s after the last request")
                break
            if time.monotonic() > quiet + EQUAL_S:
                world.history.finding("tiers_differ", f"{len(found)} after {EQUAL_S} s of quiet: {found[:12]}")
                break
            time.sleep(0.25)
    for node in world.arena.nodes.values():
        check_registry(world, node)


def administrator(world, node):
    return Client(node, world.market.org, "admin-1", "admin")


def has_no_such_route(answer):
    return answer.status == 404 and answer.code == "not_found"


def reconcile(world, event):
    """False: this server can't yet. A 503 asks to be asked again: one slow answer of Redis is enough for it."""
    admin = administrator(world, next(iter(world.arena.nodes.values())))
    deadline = time.monotonic() + EQUAL_S
    while True:
        answer = admin.post(f"/api/admin/registry/{event}/reconcile")
        if answer.status == 503 and time.monotonic() < deadline:
            time.sleep(0.25)
            continue
        if has_no_such_route(answer):
            return False
        if answer.status != 200:
            world.history.finding("not_well", f"reconcile of {event}: {answer}")
        return True


def check_registry(world, node):
    """The node itself says that its tiers agree; one slow answer of Redis may need a second look."""
    deadline = time.monotonic() + EQUAL_S
    while True:
        answer = administrator(world, node).get(f"/api/admin/registry/{TAIL_EVENT}")
        if has_no_such_route(answer) or (answer.status == 200 and answer.json["consistent"]):
            return
        if time.monotonic() > deadline:
            world.history.finding("tiers_differ", f"the registry of {node.node_id}: {answer}")
            return
        time.sleep(0.25)


def check_sellable(world):
    """All holds are over; SELLABLE_S later each seat that isn't sold is held by somebody new."""
    with world.arena.database() as db, db.cursor() as cursor:
        cursor.execute("SELECT greatest(0, extract(epoch FROM max(held_until) - clock_timestamp())) FROM seat_holds "
                       "WHERE org_id = %s AND status = 'active'", (world.market.org,))
        left_s = float(cursor.fetchone()[0] or 0)
        time.sleep(left_s + SELLABLE_S)
        cursor.execute("SELECT event_id, seat_id FROM seats WHERE org_id = %s AND status <> 'sold' "
                       "ORDER BY 1, 2", (world.market.org,))
        seats = cursor.fetchall()
        cursor.execute("SELECT event_id, capacity - sold FROM areas WHERE org_id = %s AND sold < capacity",
                       (world.market.org,))
        areas = cursor.fetchall()
    drive([buy_all(world.market, number, seats[number::12], areas[number::12]) for number in range(12)],
          timeout=300, patience=20)
    world.history.write("quiet")


def buy_all(market, number, seats, areas):
    """Holds each, and gives it back."""
    node = market.nodes[number % len(market.nodes)]
    for turn, (event, seat_id) in enumerate(seats):
        yield from buy_and_return(market, node, f"final-{number}-{turn}", event, {"seat_ids": [seat_id]},
                                  seats=[seat_id])
    for turn, (event, free) in enumerate(areas):
        # As much as one hold may have; in the last place what is left.
        quantity = min(free, 8)
        yield from buy_and_return(market, node, f"final-area-{number}-{turn}", event,
                                  {"areas": [{"area_id": AREA, "quantity": quantity}]}, areas={AREA: quantity})


def buy_and_return(market, node, name, event, wanted, **about):
    user = Client(node, market.org, name)
    answer = yield from market.call(user, "final_hold", "POST", "/api/holds",
                                    {"event_id": event, "cart_token": name} | wanted, node=node, event=event, cart=name,
                                    **about)
    if answer is not None and answer.status == 201:
        hold_id = answer.json["hold_id"]
        yield from market.call(user, "cancel", "DELETE", f"/api/holds/{hold_id}", node=node, hold=hold_id, event=event)


def check_proofs(world):
    """holdfast verify and the audit checker."""
    done = world.arena.nodes["node-1"].command("verify")
    if done.returncode != 0:
        world.history.finding("verify", f"{done.returncode}: {done.stdout}{done.stderr}")
    with world.arena.database() as db:
        for violation in audit_checker.check_event(db, world.market.org)[:20]:
            world.history.finding("audit", str(violation))


def check_ends(world):
    """Each node ends cleanly when it is told to."""
    for node in world.arena.nodes.values():
        try:
            node.stop()
        except AssertionError as error:
            world.history.finding("bad_end", str(error))
