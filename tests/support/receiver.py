"""A consumer of outgoing webhooks that can fail, hang, answer slowly and come back; it remembers what it was told.

    with Receiver() as receiver:
        put_webhook(admin, receiver)               # or admin.put("/api/admin/webhooks", {"url": receiver.url})
        receiver.behave("fail")                    # "take" (200), "fail" (500), "hang", "slow", or a function(call) -> status (None: it has answered itself)
        receiver.await_events(lambda events: ...)
        assert receiver.events == [...]            # of calls that it took, repeats and all, in order of arrival
"""

import collections
import http.server
import json
import threading
import time

from support.checkouts import signature
from support.waiting import wait_until

SECRET = "the-consumers-own-secret"
SLOW_S = 0.3

Call = collections.namedtuple("Call", "path headers body at connection")


class Receiver:
    def __init__(self):
        self.calls = []    # all that came, taken or not
        self.events = []   # of those that were taken
        self._behaviour = "take"
        self._lock = threading.Lock()
        self._released = threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver._answer(Call(self.path, self.headers, body, time.monotonic(), self.connection))
                if status is None:
                    self.close_connection = True
                    return
                self.send_response(status)
                if status // 100 == 3:
                    self.send_header("Location", receiver.url + "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_):  # whom we let hang has gone away
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def behave(self, how):
        self._behaviour = how
        if how != "hang":
            self._released.set()
        else:
            self._released.clear()

    def _answer(self, call):
        """The status; None: the connection is closed without one. What is taken is remembered before it is said."""
        behaviour = self._behaviour
        with self._lock:
            self.calls.append(call)
        if behaviour == "hang":
            self._released.wait(60)
            return None
        if behaviour == "slow":
            time.sleep(SLOW_S)
        status = behaviour(call) if callable(behaviour) else 500 if behaviour == "fail" else 200
        if status is not None and status // 100 == 2:
            with self._lock:
                self.events += json.loads(call.body)["events"]
        return status

    def of(self, event, *kinds):
        """Those of an event of ours, without repeats, in the order of their first coming."""
        seen, found = set(), []
        for told in list(self.events):
            if told["event_id"] == event and told["id"] not in seen and (not kinds or told["kind"] in kinds):
                seen.add(told["id"])
                found.append(told)
        return found

    def await_events(self, predicate, timeout=15, what=None):
        return wait_until(lambda: predicate(list(self.events)), timeout, what=what or "the receiver was told")

    def assert_in_order(self):
        """Of each event of ours: what came for the first time came in order (repeats may come at any time)."""
        told = collections.defaultdict(list)
        for event in self.events:
            told[event["event_id"]].append(event["id"])
        for event, ids in told.items():
            first_come = list(dict.fromkeys(ids))
            assert first_come == sorted(first_come), (event, ids)

    def close(self):
        self.behave("take")
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def put_webhook(admin, receiver, **more):
    return admin.put("/api/admin/webhooks", {"url": receiver.url, "secret": SECRET} | more)


def is_signed(call, secret=SECRET):
    """Whether the call's signature is of this secret, and of about now."""
    given = call.headers["Holdfast-Signature"]
    at = int(given.split(",")[0].removeprefix("t="))
    return given == signature(call.body, secret, at) and abs(time.time() - at) < 300
