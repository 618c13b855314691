#!/usr/bin/env python3
"""handoff_test WEFT_BENCH [PEERS] - the fronts of the hand-off experiment speak HTTP, and what they did is drawn.

Starts the back end and each of weft's fronts as weft-bench does, and asks by hand: several connections
at once, requests in pieces and several in one, bodies, wrong ones, a back end that is not there. Says
nothing about speed. PEERS is where bench/peers/build put Go's front, to try that as well.
"""
import os
import re
import socket
import subprocess
import sys
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor

BENCH = sys.argv[1]
FRONTS = ["weft-unified", "weft-unified-pinned", "weft-split", "weft-split-pinned",
          "weft-split-double", "weft-stealing"]
PLOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plot.py")
HEAD = re.compile(rb"HTTP/1\.1 (\d+) [^\r\n]+\r\n((?:[^\r\n]+\r\n)*)\r\n")
wrong = []


def check(condition, what):
    if not condition:
        wrong.append(what)


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1", probe.getsockname()[1]


class Server:
    """A process by the protocol of serve.h."""

    def __init__(self, name, backend=None):
        self.at = free_address()
        environment = dict(os.environ)
        if backend is not None:
            environment["WEFT_BENCH_BACKEND"] = "tcp://%s:%d" % backend
        command = [BENCH, "--serve", name] if name != "go" else [sys.argv[2] + "/go", "serve"]
        # pylint: disable=consider-using-with # ended by __exit__
        self.process = subprocess.Popen(command + ["http", "tcp://%s:%d" % self.at],
                                        stdout=subprocess.PIPE, text=True, env=environment)
        self.said = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Client:
    """A connection, and what came that was not asked for yet."""

    def __init__(self, at):
        self.socket = socket.create_connection(at, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def send(self, data):
        self.socket.sendall(data)

    def reply(self):
        """(status, fields, body), or None at the end."""
        while True:
            head = HEAD.match(self.rest)
            if head:
                fields = dict(line.lower().split(b": ") for line in head[2].splitlines())
                end = head.end() + int(fields[b"content-length"])
                if len(self.rest) >= end:
                    body, self.rest = self.rest[head.end():end], self.rest[end:]
                    return int(head[1]), fields, body
            data = self.socket.recv(4096)
            if not data:
                return None
            self.rest += data


def get(target, fields=""):
    return ("GET %s HTTP/1.1\r\nHost: front\r\n%s\r\n" % (target, fields)).encode()


def many(name, at):
    """Each connection gets its own answers, in its own order."""
    def one(number):
        client = Client(at)
        for i in range(20):
            target = "/%d/%d" % (number, i)
            client.send(get(target))
            check(client.reply() == (200, {b"content-type": b"text/plain", b"content-length":
                                           str(len(target)).encode()}, target.encode()),
                  "%s: %s got another answer" % (name, target))
    with ThreadPoolExecutor(24) as pool:
        list(pool.map(one, range(24)))


def pieces(name, at):
    client = Client(at)
    client.send(get("/a")[:7])
    client.send(get("/a")[7:] + get("/b") + b"POST /c HTTP/1.1\r\ncontent-LENGTH:  3\r\n\r\nab")
    client.send(b"c" + get("/d", "Connection: close\r\n") + get("/never"))
    bodies = []
    while (reply := client.reply()) is not None:
        bodies.append((reply[0], reply[2], reply[1].get(b"connection")))
    check(bodies == [(200, b"/a", None), (200, b"/b", None), (200, b"/c", None),
                     (200, b"/d", b"close")], "%s: in pieces: %s" % (name, bodies))


def bad(name, at):
    for request in (b"nonsense\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n",
                    b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"x" * 4096,
                    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                    b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):
        client = Client(at)
        client.send(request)
        reply = client.reply()
        check(reply is not None and reply[0] == 400 and client.reply() is None,
              "%s: %r was answered with %r" % (name, request[:40], reply))


def try_front(name):
    with Server("backend") as backend, Server(name, backend.at) as server:
        check(backend.said == "ready" and server.said == "ready",
              "%s: back end says %r, front says %r" % (name, backend.said, server.said))
        if server.said != "ready":
            return
        many(name, server.at)
        pieces(name, server.at)
        bad(name, server.at)
        check(server.process.poll() is None, "%s ended" % name)
    with Server(name, free_address()) as server:
        client = Client(server.at)
        for _ in range(2):
            client.send(get("/"))
            check(client.reply()[0] == 502, "%s: without a back end" % name)


def try_rows():
    run = subprocess.run([BENCH, "--quick", "--runs", "1", "--no-peers", "--json", "handoff-1000"],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    if "needs two CPUs" in run:
        return
    svg = subprocess.run([sys.executable, PLOT], input=run, stdout=subprocess.PIPE, text=True,
                         check=True).stdout
    words = {e.text for e in xml.etree.ElementTree.fromstring(svg).iter() if e.text}
    for name in FRONTS:
        check(name in words, "%s is not in the plot" % name)
    empty = subprocess.run([sys.executable, PLOT], input='{"rows": []}', stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, check=False)
    check(empty.returncode == 1 and "weft-bench handoff --json" in empty.stderr,
          "a plot of nothing: %r" % empty.stderr)


def main():
    with Server("weft-unified") as server:
        check(server.said.startswith("skip: "), "without an address: %r" % server.said)
    for name in FRONTS + (["go"] if len(sys.argv) == 3 else []):
        try_front(name)
    try_rows()
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


main()
