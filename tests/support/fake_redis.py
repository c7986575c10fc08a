"""A Redis that is there and says no: every command gets the same answer, whatever it was."""

import contextlib
import re
import socketserver
import threading

WORDS = re.compile(rb"\*(\d+)\r\n")


class FakeRedis:
    """Answers each command with `reply`: bytes of the protocol ("-LOADING ...\\r\\n"), or any. A context manager."""

    def __init__(self, reply):
        self.reply, self.commands = reply, 0
        fake = self

        class Session(socketserver.StreamRequestHandler):
            def handle(self):
                with contextlib.suppress(OSError):  # it may go whenever it likes
                    while fake.read_command(self.rfile):
                        fake.commands += 1
                        self.wfile.write(fake.reply)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @staticmethod
    def read_command(stream):
        """False: the client has gone."""
        try:
            found = WORDS.fullmatch(stream.readline())
            for _ in range(int(found.group(1)) if found else 0):
                length = int(stream.readline()[1:])
                stream.read(length + 2)
            return found is not None
        except ValueError:
            return False

    @property
    def url(self):
        return f"redis://127.0.0.1:{self._server.server_address[1]}/0"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
