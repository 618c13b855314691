#!/usr/bin/env python3
"""http_test PROGRAM ADDRESS - the HTTP server answers, many at a time, and bears bad requests."""
import http.client
import re
import socket
import sys
import threading
import time

from harness import Server, check


def get(server, path, connection=None):
    connection = connection or http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read().decode()


def raw(server, data, pieces=1):
    """Everything that comes back until the server closes."""
    with server.connect() as peer:
        for i in range(pieces):
            peer.sendall(data[i * len(data) // pieces : (i + 1) * len(data) // pieces])
            time.sleep(0.01 if pieces > 1 else 0)  # only to make several packets of it
        peer.shutdown(socket.SHUT_WR)
        answer = b""
        while part := peer.recv(65536):
            answer += part
    return answer.decode()


def blocking_handlers_do_not_block_others(server):
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(get(server, "/"))) for _ in range(60)
    ]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(answers == [(200, "hello after 50 ms\n")] * 60, "all get the front page")
    check(time.monotonic() - began < 60 * 0.05, "not one after the other")


def children_run_on_the_carrier_of_the_request(server):
    for _ in range(10):
        status, body = get(server, "/parallel")
        found = re.fullmatch(r"request on (\S+), children on (\S+) and (\S+)\n", body)
        check(status == 200 and found, "names of carriers: " + body)
        check(found[1].startswith("carrier-"), "a name of a carrier: " + found[1])
        check(found[1] == found[2] == found[3], "all on one carrier: " + body)


def connections_are_kept(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    for path in ["/", "/parallel", "/nothing", "/"]:
        status, _ = get(server, path, connection)
        check(status == (404 if path == "/nothing" else 200), path)
    two = b"GET /nothing HTTP/1.1\r\n\r\n" * 2
    check(raw(server, two).count("404 Not Found") == 2, "two requests in one packet")
    check(raw(server, two, pieces=7).count("404 Not Found") == 2, "two requests in seven packets")
    once = b"GET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n" * 2
    check(raw(server, once).count("404 Not Found") == 1, "closed when asked to")
    old = b"GET /nothing HTTP/1.0\r\n\r\n" * 2
    check(raw(server, old).count("404 Not Found") == 1, "closed after HTTP/1.0")


def bad_requests_are_told_so(server):
    check(raw(server, b"\r\n\r\n").startswith("HTTP/1.1 400"), "nothing")
    check(raw(server, b"hello, server\r\n\r\n").startswith("HTTP/1.1 400"), "not HTTP")
    check(raw(server, b"POST / HTTP/1.1\r\n\r\n").startswith("HTTP/1.1 405"), "not GET")
    check(raw(server, b"GET / HTTP/1.1\r\n") == "", "half a request")
    try:
        answer = raw(server, b"GET / HTTP/1.1\r\nX: " + b"x" * 20000 + b"\r\n\r\n")
    except OSError:  # it closed before it had read all
        answer = "HTTP/1.1 400"
    check(answer.startswith("HTTP/1.1 400"), "a large head")


with Server(*sys.argv[1:]) as the_server:
    check(get(the_server, "/") == (200, "hello after 50 ms\n"), "the front page")
    blocking_handlers_do_not_block_others(the_server)
    children_run_on_the_carrier_of_the_request(the_server)
    connections_are_kept(the_server)
    bad_requests_are_told_so(the_server)
    check(get(the_server, "/nothing")[0] == 404, "it still answers")
