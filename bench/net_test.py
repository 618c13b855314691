#!/usr/bin/env python3
"""net_test WEFT_BENCH [sanitized] - runs quick rounds of `net` and checks that everything did run.

Says nothing about speed. The client compares every reply with its request, so a server that mixes
bytes up is skipped by its row, and that is what this finds. A server must not wake up while nothing
happens, but the thread sanitizer's own thread does.
"""
import json
import subprocess
import sys

ROWS = ["tcp-echo-50x16", "unix-echo-500x1", "tcp-send", "tcp-receive", "tcp-accept", "tcp-storm",
        "tcp-idle"]
EXPECTED = {"weft-conn-uring", "weft-conn-epoll", "weft-plain-uring", "weft-plain-epoll",
            "floor-uring", "floor-epoll"}
NO_URING = ("Operation not permitted", "Function not implemented", "Operation not supported",
            "No such file or directory")
SANITIZED = sys.argv[2:] == ["sanitized"]


def problems(row):
    """What is wrong with a row."""
    for contender in row["contenders"]:
        name, why = contender["name"], contender.get("skipped")
        if name not in EXPECTED or (name.endswith("uring") and why in NO_URING):
            continue
        if why is not None:
            yield "%s: %s was skipped: %s" % (row["row"], name, why)
        for metric in contender.get("metrics", []):
            if metric["unit"] == "wakeups_per_s" and metric["median"] > 0 and not SANITIZED:
                yield "%s: %s wakes up while nothing happens" % (row["row"], name)


def main():
    run = subprocess.run([sys.argv[1], "--quick", "--runs", "1", "--no-peers", "--json"] + ROWS,
                         stdout=subprocess.PIPE, text=True, check=True)
    rows = json.loads(run.stdout)["rows"]
    if any(c.get("skipped") == "needs two CPUs" for row in rows for c in row["contenders"]):
        sys.exit(77)
    wrong = [problem for row in rows for problem in problems(row)]
    if [row["row"] for row in rows] != ROWS:
        wrong.append("rows are missing")
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


main()
