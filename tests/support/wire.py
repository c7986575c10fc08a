"""A connection to a node on which a test writes every byte itself."""

import email.parser
import json
import socket

from support.client import Answer


class Wire:
    """Sends bytes, reads answers one by one. A context manager."""

    def __init__(self, node, timeout=10):
        self.node = node
        self._socket = socket.create_connection((node.host, node.port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def send(self, data):
        self._socket.sendall(data)
        return self

    def answer(self, head=False):
        """The next answer; `head`: it has no body whatever its Content-Length says."""
        head_bytes = self._take_until(b"\r\n\r\n")
        status_line, _, fields = head_bytes.partition(b"\r\n")
        version, status, _ = status_line.decode("latin-1").split(" ", 2)
        assert version == "HTTP/1.1", status_line
        headers = email.parser.Parser().parsestr(fields.decode("latin-1"), headersonly=True)
        status = int(status)
        has_body = not head and status not in (204, 304) and status >= 200
        return Answer(status, headers, self._take(int(headers["Content-Length"])) if has_body else b"")

    def _more(self):
        chunk = self._socket.recv(65536)
        if not chunk:
            raise EOFError(f"the node closed after {self._received!r}")
        self._received += chunk

    def _take_until(self, mark):
        while mark not in self._received:
            self._more()
        head, _, self._received = self._received.partition(mark)
        return head + mark

    def _take(self, count):
        while len(self._received) < count:
            self._more()
        body, self._received = self._received[:count], self._received[count:]
        return body

    def is_closed(self):
        """Waits for what comes next; true if that is the end of the connection."""
        if self._received:
            return False
        try:
            self._more()
        except (EOFError, ConnectionResetError):
            return True
        return False

    def shut_sending(self):
        self._socket.shutdown(socket.SHUT_WR)

    def close(self):
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def request(client, method, path, body=None, headers=(), version="HTTP/1.1"):
    """The bytes of a request on behalf of `client`. `headers`: whole lines as bytes, after the usual ones."""
    lines = [f"{method} {path} {version}".encode(), b"Host: holdfast.test",
             f"Authorization: Bearer {client.token}".encode(), *headers]
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    if body is not None:
        lines += [b"Content-Type: application/json", f"Content-Length: {len(body)}".encode()]
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")
