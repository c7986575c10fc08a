"""A TCP relay that a test puts between a node and its Postgres or Redis, to cut, freeze or refuse what passes."""

import selectors
import socket
import threading
import time

CHUNK_BYTES = 65536


class Proxy:
    """Relays 127.0.0.1:port to target. A context manager.

    cut()      closes every connection; new ones are accepted.
    refuse()   as cut(), and new ones are closed at once, until allow().
    freeze()   nothing passes in either direction, connections stay open, until thaw().
    slow(s)    whatever passes is so many seconds late; slow(0) ends it.
    vanish()   what is sent goes nowhere and nobody is told, until appear(); a connection that lost something is
               never of use again: it stays open until its client closes it (half-open).
    at(marker, how)  the next bytes of a client that contain `marker` meet one of these fates, once:
        "lose the answer"   they reach the server, which answers into the void; the client is cut off.
        "lose the answer and refuse"  the same, and nobody gets a new connection from then on, until allow().
        "lose the request"  they reach nobody; both sides are cut off.
        "keep the answer"   they reach the server; nobody is cut off, but the client hears nothing until deliver().
        "keep the request"  the client is cut off; they reach the server at deliver(), long after.
        "stall"             nobody is cut off; nothing passes on this connection until deliver().
    """

    FATES = ("lose the answer", "lose the request", "keep the answer", "keep the request", "stall")

    def __init__(self, host, port):
        self.target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._guard = threading.Lock()
        self._pairs = set()
        self._refusing = False
        self._flowing = threading.Event()
        self._flowing.set()
        self._late_s = 0.0
        self._vanished = False
        self._closing = False
        self._ambush = None  # (marker, how, how many pass before)
        self._deliver = threading.Event()
        self.ambushed = threading.Event()  # the marker has come by
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._guard:
                if self._closing or self._refusing:
                    client.close()
                    continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        self._flowing.wait()
        try:
            server = socket.create_connection(self.target, 10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        pair = (client, server)
        with self._guard:
            self._pairs.add(pair)
        try:
            self._relay(client, server)
        finally:
            with self._guard:
                self._pairs.discard(pair)
            client.close()
            server.close()

    def _relay(self, client, server):
        other = {client: server, server: client}
        with selectors.DefaultSelector() as selector:
            for end in other:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(end, selectors.EVENT_READ)
            try:
                while True:
                    for key, _ in selector.select():
                        self._flowing.wait()
                        if self._late_s:
                            time.sleep(self._late_s)
                        data = key.fileobj.recv(CHUNK_BYTES)
                        if self._vanished:
                            swallow(selector, client, server)
                            return
                        if not data:
                            return
                        how = self._spring(data) if key.fileobj is client else None
                        if how == "stall":
                            self.ambushed.set()
                            self._deliver.wait(30)
                        elif how == "keep the answer":
                            server.sendall(data)
                            self.ambushed.set()
                            self._deliver.wait(30)
                            continue
                        elif how:
                            self._lose(how, client, server, data)
                            return
                        other[key.fileobj].sendall(data)
            except OSError:
                return

    # --- ambushes ----------------------------------------------------------------------------------------

    def at(self, marker, how, passing=0):
        """passing: so many may pass before."""
        with self._guard:
            self._ambush = (marker, how, passing)
            self.ambushed.clear()
            self._deliver.clear()

    def deliver(self):
        self._deliver.set()

    def disarm(self):
        """No ambush waits any longer, and nothing is kept or stalled."""
        with self._guard:
            self._ambush = None
        self.deliver()

    def _spring(self, data):
        """What is to be done to these bytes of a client, if anything."""
        with self._guard:
            if self._ambush is None or self._ambush[0] not in data:
                return None
            marker, how, passing = self._ambush
            if passing > 0:
                self._ambush = (marker, how, passing - 1)
                return None
            self._ambush = None
            if how.endswith("and refuse"):
                self._refusing = True  # before the client is cut off: it connects anew at once
        return how

    def _lose(self, how, client, server, data):
        if how.startswith("lose the answer"):
            server.sendall(data)
        abort(client)
        self.ambushed.set()
        if how == "keep the request":
            self._deliver.wait(30)
            server.sendall(data)
        if how != "lose the request":
            drain(server)

    # --- accidents ---------------------------------------------------------------------------------------

    def cut(self):
        with self._guard:
            pairs = list(self._pairs)
        for pair in pairs:
            for end in pair:
                abort(end)

    def refuse(self):
        with self._guard:
            self._refusing = True
        self.cut()

    def allow(self):
        with self._guard:
            self._refusing = False

    def freeze(self):
        self._flowing.clear()

    def thaw(self):
        self._flowing.set()

    def slow(self, seconds):
        self._late_s = seconds

    def vanish(self):
        self._vanished = True

    def appear(self):
        self._vanished = False

    @property
    def connections(self):
        with self._guard:
            return len(self._pairs)

    def close(self):
        with self._guard:
            self._closing = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.thaw()
        self.cut()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def abort(connection):
    """Ends a connection under its reader; its object stays usable."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is gone already


def swallow(selector, client, server):
    """Reads what both have to say and passes nothing on, until the client ends it."""
    while True:
        for key, _ in selector.select():
            if key.fileobj.recv(CHUNK_BYTES):
                continue
            if key.fileobj is client:
                return
            selector.unregister(server)


def drain(server, silence_s=0.5):
    """Reads what the server has to say, and throws it away: it must not fail for having nobody to talk to."""
    server.settimeout(silence_s)
    try:
        while server.recv(CHUNK_BYTES):
            pass
    except TimeoutError:
        pass


def through(proxy, url):
    """`url` with the proxy's address in the place of its own."""
    return at_port(proxy.port, url)


def at_port(port, url):
    from urllib.parse import urlsplit
    parts = urlsplit(url)
    who = parts.netloc.rpartition("@")[0]
    return parts._replace(netloc=f"{who}@127.0.0.1:{port}" if who else f"127.0.0.1:{port}").geturl()
