#!/usr/bin/env python3
"""chat_test PROGRAM ADDRESS - everyone reads what one says, and a slow reader holds up nobody."""
import socket
import sys

from harness import Server, check

GUESTS = 10


class Guest:
    """Someone in the room, who reads along."""

    def __init__(self, server):
        self.sock = server.connect()
        self.lines = self.sock.makefile("r", encoding="utf-8")
        arrival = self.read()
        check(arrival.startswith("* ") and arrival.endswith(" comes in"), arrival)
        self.name = arrival.split()[1]

    def read(self):
        return self.lines.readline().rstrip("\n")

    def read_until(self, wanted):
        while (line := self.read()) != wanted:
            check(line != "", "the server goes on until it says: " + wanted)

    def say(self, text):
        self.sock.sendall(text.encode() + b"\n")


def conversation(guests):
    for guest in guests:
        guest.say("hello from " + guest.name)
        for other in guests:
            other.read_until("%s: hello from %s" % (guest.name, guest.name))
    guests[0].say("x" * 700)
    guests[1].read_until(guests[0].name + ": " + "x" * 512)
    guests[1].read_until(guests[0].name + ": " + "x" * 188)
    guests[0].sock.sendall(b"one\ntwo\nthr")
    guests[0].sock.sendall(b"ee\n")
    for text in ["one", "two", "three"]:
        guests[1].read_until(guests[0].name + ": " + text)


def slow_reader(server, talker):
    """Does not read, until it is thrown out for that."""
    slow = Guest(server)
    leaves = "* %s leaves" % slow.name
    line = ""
    while line != leaves:
        for _ in range(50):
            talker.say("y" * 500)
        talker.say("do you read me?")
        while line not in (leaves, talker.name + ": do you read me?"):
            line = talker.read()
            check(line != "", "the server goes on")
        line = line if line == leaves else ""
    slow.sock.close()


with Server(*sys.argv[1:]) as the_server:
    room = [Guest(the_server) for _ in range(GUESTS)]
    check(len({guest.name for guest in room}) == GUESTS, "everyone has a name")
    room[0].read_until("* %s comes in" % room[-1].name)
    conversation(room)
    for gone in room[1:]:
        gone.sock.shutdown(socket.SHUT_WR)
        room[0].read_until("* %s leaves" % gone.name)
        gone.sock.close()
    slow_reader(the_server, room[0])
    room[0].say("anyone?")
    room[0].read_until(room[0].name + ": anyone?")
