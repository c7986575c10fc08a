"""The buyers of a chaos run, the payment provider and an administrator: each is an actor of support/swarm.py that does
what its draws say and tells the history.

What a buyer does in its n-th step is drawn from (seed, buyer, n) alone, so that a lost answer early on doesn't change
the rest of the run.
"""

import itertools
import random
import time

from support.checkouts import WEBHOOK_PATH, signature, webhook_body
from support.client import Client, seat
from support.swarm import Shot, pause, shot

ROUND_S = 8.0  # how long a pair of events is on sale
BUYERS, PROVIDERS = 24, 6
THINK_S = 0.06
PATIENCE_S = 20.0  # no answer after this long: given up. More than any fault and request_timeout together
TRIES_MAX = 6

SMALL, LARGE = 12, 20
AREA, AREA_CAPACITY = "floor", 15
PRICE, AREA_PRICE = 1500, 700
PAYMENT_TIMEOUT_S = 3

# What a buyer does next, and how often. Those in the second table need a hold.
CHOICES = {"hold": 26, "hold_area": 6, "read_seat": 12, "read_map": 3, "list": 2, "meddle": 3}
CHOICES_WITH_HOLD = {"again": 8, "extend": 12, "confirm": 5, "cancel": 14, "remove_seat": 5, "patch": 8,
                     "transfer": 5, "get_hold": 5, "leave": 4, "checkout": 14}
CHOICES_WITH_CHECKOUT = {"complete": 40, "cancel_checkout": 8, "get_checkout": 6, "forget_checkout": 6}
METHODS = {"tok_ok": 6, "tok_declined": 3, "tok_pending": 5, "tok_error": 1, "tok_slow": 1}
# What the provider tells of a payment that it had not decided, in this order; each some times.
WORDS = {("succeeded",): 5, ("failed",): 3, ("failed", "succeeded"): 2, ("succeeded", "failed"): 1, (): 1}


class Market:
    """The events, who buys, and the way of each request into the history."""

    def __init__(self, seed, org, nodes, history, duration):
        self.seed, self.org, self.nodes, self.history = seed, org, list(nodes), history
        self.rounds = int(duration / ROUND_S) + 2
        self.began, self.is_open = None, False
        self.told = []  # holds that somebody has heard of, for those who meddle
        self.undecided = []  # intents that somebody has heard of, for the provider
        self._numbers = itertools.count(1)
        self.admin = Client(self.nodes[0], org, "admin-1", "admin")

    def make_events(self):
        for number in range(self.rounds):
            self.admin.make_event(
                seats_of_row("S", SMALL), event=small_event(number),
                policy={"hold_ttl": 2, "extend_by": 2, "max_hold": 6, "max_seats_per_user": 6,
                        "one_seat_per_user": number % 2 == 1, "payment_timeout": PAYMENT_TIMEOUT_S})
            self.admin.make_event(
                seats_of_row("L", LARGE), event=large_event(number), areas=[
                    {"area_id": AREA, "name": "Floor", "capacity": AREA_CAPACITY, "price": AREA_PRICE}],
                policy={"hold_ttl": 4, "extend_by": 3, "max_hold": 12, "payment_timeout": PAYMENT_TIMEOUT_S})

    def open(self):
        self.began = time.monotonic()
        self.is_open = True

    def close(self):
        self.is_open = False

    def round(self):
        return min(int((time.monotonic() - self.began) / ROUND_S), self.rounds - 1)

    def pick_event(self, draw):
        """Mostly of this round, sometimes of the one before: its last holds are still about."""
        number = max(0, self.round() - (draw.random() < 0.15))
        return small_event(number) if draw.random() < 0.4 else large_event(number)

    def on_sale(self, draw):
        event = self.pick_event(draw)
        return self.org, event, seat_ids(event)

    def call(self, user, op, method, path, body=None, key=None, node=None, **about):
        """Asks, and writes down what was asked and what was answered. A part of an actor: `yield from`."""
        rid = f"r-{next(self._numbers)}"
        headers = {"X-Request-Id": rid} | ({"Idempotency-Key": key} if key else {})
        a_shot = shot(user.at(node), method, path, body, headers)
        answer = yield from self.tell(a_shot, rid, user=user.user, op=op, key=key, **about)
        return answer

    def word(self, intent_id, status, key, node):
        """The provider tells what became of a payment."""
        rid, body = f"r-{next(self._numbers)}", webhook_body(intent_id, status, key)
        lines = [f"POST {WEBHOOK_PATH} HTTP/1.1", "Host: holdfast", "Content-Type: application/json",
                 f"X-Request-Id: {rid}", f"Holdfast-Signature: {signature(body)}", f"Content-Length: {len(body)}"]
        a_shot = Shot(node, "\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        answer = yield from self.tell(a_shot, rid, user="provider", op="webhook", intent=intent_id, word=status)
        return answer

    def tell(self, a_shot, rid, **about):
        begin = time.monotonic()
        answer = yield a_shot
        end = time.monotonic()
        self.history.write("call", rid=rid, node=a_shot.node.node_id, begin=begin, end=end, **about, **told(answer))
        return answer


def told(answer):
    if answer is None:
        return {}
    headers = answer.headers
    body = answer.json
    if answer.status == 200 and "version" in body and "seats" in body:  # a map, of which less is enough
        body = {"seats": {each["seat_id"]: [each["status"], each["version"], each.get("held_until")]
                          for each in body["seats"]}}
    return {"status": answer.status, "code": answer.code, "tier": headers.get("X-Holdfast-Tier"),
            "by": headers.get("X-Holdfast-Node"), "stale": headers.get("X-Holdfast-Stale"), "body": body}


def small_event(number):
    return f"round-{number}-small"


def large_event(number):
    return f"round-{number}-large"


def seats_of_row(row, count):
    return [seat(f"{row}-{n}", row=row, number=n, price=PRICE) for n in range(1, count + 1)]


def seat_ids(event):
    row, count = ("S", SMALL) if event.endswith("small") else ("L", LARGE)
    return [f"{row}-{n}" for n in range(1, count + 1)]


def is_definite(answer):
    """Whether this says how it went."""
    return answer is not None and not (answer.status == 503 and answer.code == "outcome_unknown")


class Buyer:
    """One user with what it knows of its own holds."""

    def __init__(self, market, number):
        self.market, self.number = market, number
        self.user = Client(market.nodes[0], market.org, f"buyer-{number}")
        self.holds = {}  # hold_id -> the body that was told last
        self.over_at = {}  # hold_id -> when it is over, on our own clock
        self.checkouts = {}  # checkout_id -> the event

    def steps(self):
        for number in itertools.count():
            draw = random.Random(f"{self.market.seed}/{self.number}/{number}")
            yield pause(draw.expovariate(1 / THINK_S))
            if not self.market.is_open:
                return
            yield from self.step(draw)

    def step(self, draw):
        node = draw.choice(self.market.nodes)
        self.forget_what_is_over(draw)
        choices = CHOICES | (CHOICES_WITH_HOLD if self.holds else {}) | (
            CHOICES_WITH_CHECKOUT if self.checkouts else {})
        what = draw.choices(list(choices), list(choices.values()))[0]
        if what in CHOICES:
            yield from getattr(self, what)(draw, node)
        elif what in CHOICES_WITH_CHECKOUT:
            yield from getattr(self, what)(draw, node, draw.choice(sorted(self.checkouts)))
        else:
            yield from getattr(self, what)(draw, node, self.holds[draw.choice(sorted(self.holds))])

    def forget_what_is_over(self, draw):
        """Most buyers know when they are too late; some try all the same."""
        for hold_id in [each for each in self.holds if time.monotonic() > self.over_at[each]]:
            if draw.random() < 0.5:
                del self.holds[hold_id]

    def ask(self, draw, node, op, method, path, body=None, key=None, **about):
        """Asks until there is a definite answer, elsewhere if need be. One that says "try again" is taken as it is."""
        answer = yield from self.market.call(self.user, op, method, path, body, key, node, **about)
        for _ in range(TRIES_MAX - 1):
            if is_definite(answer):
                break
            yield pause(draw.uniform(0.05, 0.8))
            answer = yield from self.market.call(self.user, op, method, path, body, key,
                                                 draw.choice(self.market.nodes), repeats=True, **about)
        if answer is not None and answer.code in ("hold_expired", "hold_not_active", "not_hold_owner"):
            self.holds.pop(about.get("hold"), None)
        self.learn(answer)
        return answer

    def learn(self, answer):
        if answer is None or answer.status not in (200, 201):
            return
        for hold in answer.json.get("holds", [answer.json]):
            if "hold_id" not in hold:
                continue
            self.holds.pop(hold["hold_id"], None)
            if hold["status"] == "active" and hold["user_id"] == self.user.user:
                self.holds[hold["hold_id"]] = hold
                self.over_at[hold["hold_id"]] = time.monotonic() + hold["expires_in_seconds"] + 1
                self.market.told = [*self.market.told[-20:], hold["hold_id"]]

    # --- without a hold ------------------------------------------------------------------------------------

    def hold(self, draw, node):
        event = self.market.pick_event(draw)
        seats = draw.sample(seat_ids(event), draw.choice([1, 1, 1, 2, 2, 3, 4]))
        yield from self.hold_these(draw, node, event, seats=seats)

    def hold_area(self, draw, node):
        event = large_event(self.market.round())
        areas = {AREA: draw.randint(1, 4)}
        seats = draw.sample(seat_ids(event), 1) if draw.random() < 0.3 else []
        yield from self.hold_these(draw, node, event, seats=seats, areas=areas)

    def hold_these(self, draw, node, event, seats=(), areas=None, cart=None):
        cart = cart or f"cart-{draw.getrandbits(40):x}"
        key = f"key-{draw.getrandbits(60):x}" if draw.random() < 0.33 else None
        body = {"event_id": event, "cart_token": cart}
        if seats:
            body["seat_ids"] = list(seats)
        if areas:
            body["areas"] = [{"area_id": area, "quantity": quantity} for area, quantity in areas.items()]
        yield from self.ask(draw, node, "hold", "POST", "/api/holds", body, key, event=event, seats=list(seats),
                            areas=areas, cart=cart)

    def read_seat(self, draw, node):
        event = self.market.pick_event(draw)
        seat_id = draw.choice(seat_ids(event))
        yield from self.market.call(self.user, "read_seat", "GET", f"/api/events/{event}/seats/{seat_id}", node=node,
                                    event=event, seats=[seat_id])

    def read_map(self, draw, node):
        event = self.market.pick_event(draw)
        yield from self.market.call(self.user, "read_map", "GET", f"/api/events/{event}/seats", node=node, event=event)

    def list(self, draw, node):
        event = self.market.pick_event(draw)
        answer = yield from self.market.call(self.user, "list", "GET", f"/api/holds?event_id={event}", node=node,
                                             event=event)
        self.learn(answer)

    def meddle(self, draw, node):
        """With a hold that is most likely somebody else's."""
        if not self.market.told:
            return
        hold_id = draw.choice(self.market.told)
        if hold_id in self.holds:
            return
        op, method, tail = draw.choice([("extend", "POST", "/extend"), ("confirm", "POST", "/confirm"),
                                        ("cancel", "DELETE", ""), ("get_hold", "GET", "")])
        yield from self.market.call(self.user, op, method, f"/api/holds/{hold_id}{tail}",
                                    {} if method == "POST" else None, node=node, hold=hold_id)

    # --- with one ------------------------------------------------------------------------------------------

    def again(self, draw, node, hold):
        """What the user has already, with the cart of before."""
        yield from self.hold_these(draw, node, hold["event_id"], [each["seat_id"] for each in hold["seats"]],
                                   {each["area_id"]: each["quantity"] for each in hold["areas"]}, hold["cart_token"])

    def change(self, draw, node, hold, op, method, tail, body=None, **about):
        yield from self.ask(draw, node, op, method, f"/api/holds/{hold['hold_id']}{tail}", body, hold=hold["hold_id"],
                            event=hold["event_id"], **about)

    def extend(self, draw, node, hold):
        yield from self.change(draw, node, hold, "extend", "POST", "/extend",
                               {"seconds": draw.randint(1, 3)} if draw.random() < 0.5 else {})

    def confirm(self, draw, node, hold):
        yield from self.change(draw, node, hold, "confirm", "POST", "/confirm", {})

    def cancel(self, draw, node, hold):
        yield from self.change(draw, node, hold, "cancel", "DELETE", "")

    def remove_seat(self, draw, node, hold):
        if hold["seats"]:
            seat_id = draw.choice(hold["seats"])["seat_id"]
            yield from self.change(draw, node, hold, "remove", "DELETE", f"/seats/{seat_id}", remove=[seat_id])

    def patch(self, draw, node, hold):
        have = [each["seat_id"] for each in hold["seats"]]
        free = [seat_id for seat_id in seat_ids(hold["event_id"]) if seat_id not in have]
        add = draw.sample(free, draw.randint(0, 2))
        remove = draw.sample(have, min(len(have), draw.randint(0, 1)))
        if add or remove:
            body = {"add_seat_ids": add, "remove_seat_ids": remove}
            yield from self.change(draw, node, hold, "patch", "PATCH", "", body, add=add, remove=remove)

    def transfer(self, draw, node, hold):
        heir = f"buyer-{draw.randrange(BUYERS)}"
        yield from self.change(draw, node, hold, "transfer", "POST", "/transfer", {"to_user_id": heir}, to=heir)

    def get_hold(self, _, node, hold):
        answer = yield from self.market.call(self.user, "get_hold", "GET", f"/api/holds/{hold['hold_id']}", node=node,
                                             hold=hold["hold_id"])
        self.learn(answer)

    def leave(self, _, __, hold):
        """The buyer walks away; time ends the hold."""
        self.holds.pop(hold["hold_id"])
        yield pause(0)

    def checkout(self, draw, node, hold):
        """Of this hold, of all holds there, or of two of them."""
        event = hold["event_id"]
        there = sorted(each for each in self.holds if self.holds[each]["event_id"] == event)
        named = draw.choice([[hold["hold_id"]], None, there[:2]])
        body = {"event_id": event} | ({"hold_ids": named} if named else {})
        answer = yield from self.ask(draw, node, "checkout_start", "POST", "/api/checkouts", body, event=event,
                                     named=named)
        if answer is not None and answer.status == 201:
            self.checkouts[answer.json["checkout_id"]] = event

    # --- with a checkout -----------------------------------------------------------------------------------

    def at_checkout(self, draw, node, checkout_id, op, method, tail, body=None, **about):
        answer = yield from self.ask(draw, node, op, method, f"/api/checkouts/{checkout_id}{tail}", body,
                                     checkout=checkout_id, event=self.checkouts[checkout_id], **about)
        return answer

    def complete(self, draw, node, checkout_id):
        """Now and then again, to hear the same."""
        method = draw.choices(list(METHODS), list(METHODS.values()))[0]
        key = f"key-{draw.getrandbits(60):x}" if draw.random() < 0.3 else None
        answer = yield from self.at_checkout(draw, node, checkout_id, "complete", "POST", "/complete",
                                             {"payment_method": method}, key=key, card=method)
        if answer is None or answer.code in ("payment_unavailable", "outcome_unknown", "store_unavailable"):
            return
        if answer.status == 202:
            self.market.undecided.append(answer.json["payment_intent_id"])
        if draw.random() < 0.7:
            self.checkouts.pop(checkout_id, None)

    def cancel_checkout(self, draw, node, checkout_id):
        answer = yield from self.at_checkout(draw, node, checkout_id, "checkout_cancel", "POST", "/cancel", {})
        if answer is not None and answer.status == 200:
            self.checkouts.pop(checkout_id, None)

    def get_checkout(self, _, node, checkout_id):
        yield from self.market.call(self.user, "get_checkout", "GET", f"/api/checkouts/{checkout_id}", node=node,
                                    checkout=checkout_id, event=self.checkouts[checkout_id])

    def forget_checkout(self, _, __, checkout_id):
        self.checkouts.pop(checkout_id)
        yield pause(0)


class Provider:
    """Tells what became of payments: late, twice, at several nodes at once, and again until it hears 200."""

    def __init__(self, market, number):
        self.market, self.number = market, number

    def steps(self):
        for number in itertools.count():
            draw = random.Random(f"{self.market.seed}/provider-{self.number}/{number}")
            yield pause(draw.expovariate(1 / THINK_S))
            if self.market.undecided:
                yield from self.decide(draw, self.market.undecided.pop(0))
            elif not self.market.is_open:
                return

    def decide(self, draw, intent_id):
        words = draw.choices(list(WORDS), list(WORDS.values()))[0]
        yield pause(draw.choice([0.0, 0.05, 0.5, PAYMENT_TIMEOUT_S]))
        for place, status in enumerate(words):
            yield from self.insist(draw, intent_id, status, f"{place}")
            yield pause(draw.uniform(0, 0.3))
        for _ in range(draw.randint(0, 2)):
            if words:
                place = draw.randrange(len(words))
                yield from self.market.word(intent_id, words[place], f"{place}", draw.choice(self.market.nodes))

    def insist(self, draw, intent_id, status, key):
        while True:
            answer = yield from self.market.word(intent_id, status, key, draw.choice(self.market.nodes))
            if answer is not None and answer.status < 500:
                return
            yield pause(0.2)


class Releaser:
    """An administrator who now and then takes seats back, whoever has them."""

    def __init__(self, market):
        self.market = market

    def steps(self):
        for number in itertools.count():
            draw = random.Random(f"{self.market.seed}/releaser/{number}")
            yield pause(draw.expovariate(1 / 0.7))
            if not self.market.is_open:
                return
            yield from self.release(draw)

    def release(self, draw):
        event, held = self.market.pick_event(draw), self.market.told[-6:]
        body, about = draw.choice([
            ({"hold_ids": held[:draw.randint(1, 3)]}, {"named": held}),
            ({"event_id": event, "seat_ids": (some := draw.sample(seat_ids(event), 2))}, {"event": event, "seats": some}),
            ({"event_id": event, "all": True}, {"event": event})])
        if body.get("hold_ids") != []:
            yield from self.market.call(self.market.admin, "admin_release", "POST", "/api/admin/seats/release", body,
                                        node=draw.choice(self.market.nodes), **about)
