"""harness - starts an example server, finds out where it listens, and ends it."""
import re
import signal
import socket
import subprocess
import sys


class Server:
    """A running example. Use it in a `with` statement; `stop` sends SIGTERM and waits."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            found = re.search(r"listening on \S*:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                return
        raise SystemExit("%s ended without saying where it listens" % command[0])

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def stop(self, signum=signal.SIGTERM):
        self.process.send_signal(signum)
        return self.process.wait(timeout=20)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def receive(sock, size):
    """Exactly `size` bytes, or fewer if the peer closed."""
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            break
        data += part
    return data


def check(condition, what):
    if not condition:
        sys.exit("failed: " + what)
