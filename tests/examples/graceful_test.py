#!/usr/bin/env python3
"""graceful_test PROGRAM ADDRESS - one signal lets work finish, a second one does not."""
import select
import signal
import sys

from harness import Server, check, receive


def begin(server, ms):
    """A connection whose request the server has begun to work on."""
    peer = server.connect()
    peer.sendall(b"%d\n" % ms)
    expected = b"working for %d ms\n" % ms
    check(receive(peer, len(expected)) == expected, "the work has begun")
    return peer


def idle_peer(server):
    peer = begin(server, 0)
    check(receive(peer, 5) == b"done\n", "a request is answered")
    return peer


def await_refusal(server):
    """Each carrier stops listening when it gets its turn."""
    while True:
        try:
            server.connect().close()
        except ConnectionError:
            return


def one_signal(signum):
    with Server(*sys.argv[1:]) as server:
        idle = idle_peer(server)
        half = server.connect()
        half.sendall(b"10")  # not a whole request
        busy = [begin(server, 1500) for _ in range(10)]
        server.process.send_signal(signum)
        check(idle.recv(1) == b"", "an idle connection is closed at once")
        check(half.recv(1) == b"", "half a request is not waited for")
        await_refusal(server)
        check(not select.select(busy, [], [], 0)[0], "nobody is accepted while work goes on")
        for peer in busy:
            check(receive(peer, 6) == b"done\n", "work in flight is finished, and no more")
        check(server.process.wait(timeout=20) == 0, "the server ends well")


def two_signals():
    with Server(*sys.argv[1:]) as server:
        busy = begin(server, 3600000)
        server.process.send_signal(signal.SIGTERM)
        check("finishing" in server.process.stdout.readline(), "the first signal drains")
        check(server.process.poll() is None, "the work goes on")
        check(server.stop(signal.SIGINT) == 0, "the second signal ends it")
        check(busy.recv(1) == b"", "the work is cut short")


def no_work():
    with Server(*sys.argv[1:]) as server:
        check(server.stop() == 0, "a server without connections ends at once")


one_signal(signal.SIGTERM)
one_signal(signal.SIGINT)
two_signals()
no_work()
