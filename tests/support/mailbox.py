"""A tiny SMTP server that keeps what it is sent.

    with Mailbox() as mailbox:
        node = start_node(smtp_url=mailbox.url, smtp_from="tickets@house.example")
        mail = mailbox.await_mail(to="buyer@example.org")
        mail.message["Subject"], mail.text
"""

import collections
import email
import email.policy
import socketserver
import threading

from support.waiting import wait_until

Mail = collections.namedtuple("Mail", "sender recipients raw message text")


class Mailbox:
    def __init__(self):
        self.mails = []
        self.refuses = False  # answers 451 to every mail
        mailbox = self

        class Handler(socketserver.StreamRequestHandler):
            def say(self, line):
                self.wfile.write(line.encode() + b"\r\n")

            def handle(self):
                self.say("220 mailbox")
                sender, recipients = None, []
                while line := self.rfile.readline():
                    word = line[:4].upper()
                    if word in (b"EHLO", b"HELO"):
                        self.say("250 mailbox")
                    elif word == b"MAIL":
                        sender, recipients = address_of(line), []
                        self.say("451 not now" if mailbox.refuses else "250 ok")
                    elif word == b"RCPT":
                        recipients.append(address_of(line))
                        self.say("250 ok")
                    elif word == b"DATA":
                        self.say("354 go on")
                        mailbox.keep(sender, recipients, self.read_data())
                        self.say("250 kept")
                    elif word == b"QUIT":
                        self.say("221 bye")
                        return
                    else:
                        self.say("250 ok")

            def read_data(self):
                lines = []
                while (line := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(line[1:] if line.startswith(b".") else line)
                return b"".join(lines)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"smtp://127.0.0.1:{self._server.server_address[1]}"

    def keep(self, sender, recipients, raw):
        message = email.message_from_bytes(raw, policy=email.policy.default)
        self.mails.append(Mail(sender, recipients, raw, message, message.get_content()))

    def to(self, address):
        return [mail for mail in self.mails if address in mail.recipients]

    def await_mail(self, to, timeout=15):
        """The first mail to this address."""
        return wait_until(lambda: self.to(to), timeout, what=f"a mail to {to}")[0]

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def address_of(line):
    return line.decode().partition("<")[2].partition(">")[0]
