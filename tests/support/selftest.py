#!/usr/bin/env python3
"""selftest.py PROGRAM [WRAPPER...] - the test runner tests itself: every kind of end is reported
as what it was."""
import os
import re
import subprocess
import sys
import time

command = sys.argv[2:] + sys.argv[1:2]
environment = dict(os.environ, TEST_TIMEOUT="2", TEST_SEED="12345", TEST_VERBOSE="1")
results = []


def run(*arguments):
    done = subprocess.run(command + list(arguments), env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def check(name, holds, shown=""):
    results.append(holds)
    print("%s %d - %s" % ("ok" if holds else "not ok", len(results), name))
    if not holds:
        for line in shown[-4000:].splitlines():
            print("# " + line)


def gone(pid):
    for _ in range(100):
        try:
            with open("/proc/%d/stat" % pid, encoding="utf-8") as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def section(output, name):
    """The report of one test: its line and the diagnostics below it."""
    found = re.search(r"^((?:not )?ok \d+ - %s\b.*\n(?:#.*\n)*)" % re.escape(name), output, re.M)
    return found.group(1) if found else ""


status, output = run()
count = len(run("--list")[1].split())
check("plan matches the list", "1..%d\n" % count in output and count > 10, output)
check("exit status says that something failed", status == 1, str(status))
check("seed is printed", "# seed 12345\n" in output, output)
numbers = [int(n) for n in re.findall(r"^(?:not )?ok (\d+) - ", output, re.M)]
check("numbers are consecutive", numbers == list(range(1, count + 1)), output)


def expect(test, first, *others):
    text = section(output, test)
    check(test, text.startswith(first) and all(other in text for other in others), text or output)


expect("passes", "ok ")
expect("fails_check", "not ok ", "selftest_cases.c:", "CHECK(1 + 1 == 3)", "exit status 1",
       "# replay: TEST_SEED=12345 ", " fails_check\n")
expect("fails_values", "not ok ", "left == 42u", "left is -7, right is 42")
expect("fails_string", "not ok ", "warp", "weft")
expect("fails_errno", "not ok ", "-ETIMEDOUT")
expect("skips", "ok ", "# SKIP there is a reason\n")
expect("crashes", "not ok ")
check("crash names its cause", "signal 11" in section(output, "crashes") or
      "SEGV" in section(output, "crashes"), section(output, "crashes"))
expect("exits", "not ok ", "# last words", "exit status 3")
expect("hangs", "not ok ", "timed out after")
expect("leaves_a_process_behind", "ok ")
orphan = re.search(r"# orphan (\d+)", output)
check("process left behind is killed", orphan is not None and gone(int(orphan.group(1))), output)
expect("prints_seed", "ok ", "# seed 12345 random ")
expect("prints_much", "not ok ", "earlier output is left out", "# line 99999\n",
       "after 100000 lines")
expect("driver/epoll", "ok ")
expect("driver/uring", "ok ")

status, output = run("passes")
check("one test by name passes", status == 0, output)
status, output = run("fails_check")
check("one test by name fails", status == 1 and "failed: CHECK" in output, output)
status, output = run("skips")
check("one test by name is skipped with status 77", status == 77, output)
status, output = run("no_such_test")
check("unknown name is refused", status == 2 and "usage:" in output, output)

environment["TEST_DRIVER"] = "epoll"
status, output = run("--list")
check("TEST_DRIVER leaves out the other driver", status == 0 and "driver/epoll\n" in output and
      "driver/uring" not in output and "passes\n" in output, output)
environment["TEST_DRIVER"] = "kqueue"
status, output = run("--list")
check("TEST_DRIVER that does not exist is refused", status == 2 and "kqueue" in output, output)

print("1..%d" % len(results))
sys.exit(0 if all(results) else 1)
