"""A TCP relay that a test puts between a node and its Postgres or Redis, to cut, freeze or refuse what passes."""

import selectors
import socket
import threading

CHUNK_BYTES = 65536


class Proxy:
    """Relays 127.0.0.1:port to target. A context manager.

    cut()      closes every connection; new ones are accepted.
    refuse()   as cut(), and new ones are closed at once, until allow().
    freeze()   nothing passes in either direction, connections stay open, until thaw().
    """

    def __init__(self, host, port):
        self.target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._guard = threading.Lock()
        self._pairs = set()
        self._refusing = False
        self._flowing = threading.Event()
        self._flowing.set()
        self._closing = False
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
                        data = key.fileobj.recv(CHUNK_BYTES)
                        if not data:
                            return
                        other[key.fileobj].sendall(data)
            except OSError:
                return

    def cut(self):
        with self._guard:
            pairs = list(self._pairs)
        for pair in pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it is gone already

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


def through(proxy, url):
    """`url` with the proxy's address in the place of its own."""
    from urllib.parse import urlsplit
    parts = urlsplit(url)
    who = parts.netloc.rpartition("@")[0]
    return parts._replace(netloc=f"{who}@127.0.0.1:{proxy.port}" if who else f"127.0.0.1:{proxy.port}").geturl()
