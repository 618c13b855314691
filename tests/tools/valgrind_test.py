#!/usr/bin/env python3
"""valgrind_test.py PROGRAM... - test programs under valgrind's memcheck, on epoll.

Valgrind (3.19) keeps its one big lock while a thread is inside io_uring_enter, so that nobody else
runs. A seccomp filter therefore forbids io_uring: the runner skips what needs it, and everything else
takes epoll. Each test forks, and valgrind follows, so an error fails the test that made it. Leaks are
the address sanitizer's business.
Skipped (77) where there is no valgrind or no seccomp."""
import ctypes
import os
import shutil
import signal
import struct
import subprocess
import sys

LIMIT_S = 500  # for one program; each test has its own, shorter limit
SUMMARY = 40  # lines shown of a program that failed

# What valgrind itself disturbs.
DISTURBED = {
    "descriptors_that_cannot_be_opened_here_are_an_error/epoll": "it has descriptors of its own",
    "what_drains_makes_way_for_a_new_peer/epoll": "it closes what it accepts above the limit",
    "signals_interrupt_nothing/epoll": "signals come faster than the test's own calls end",
}

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ENOSYS_INSTEAD = 0x7fff0000, 0x00050000 | 38
IO_URING = range(425, 428)  # setup, enter, register: the same on all architectures


def instruction(code, when, otherwise, value):
    return struct.pack("HBBI", code, when, otherwise, value)


def forbid_io_uring():
    """In this process and its children, for good. False: it cannot be done here."""
    program = instruction(LOAD, 0, 0, 0)
    for number in IO_URING:
        program += instruction(EQUAL, 0, 1, number) + instruction(RETURN, 0, 0, ENOSYS_INSTEAD)
    program += instruction(RETURN, 0, 0, ALLOW)
    memory = ctypes.create_string_buffer(program, len(program))
    fprog = ctypes.create_string_buffer(struct.pack("H6xP", len(program) // 8,
                                                    ctypes.addressof(memory)))
    libc = ctypes.CDLL(None)
    return (libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and
            libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, fprog, 0, 0) == 0)


def run(program):
    """Everything that the program and valgrind said. Killed, not asked, when it takes too long:
    valgrind may not listen."""
    line = ["valgrind", "-q", "--error-exitcode=99", "--fair-sched=yes", "--num-callers=30", program]
    environment = dict(os.environ, WEFT_CARRIERS="2", TEST_SCALE="5")
    with subprocess.Popen(line, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace",
                          start_new_session=True) as process:
        try:
            return process.communicate(timeout=LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.communicate()[0] + "\nnot ok - no end after %d seconds" % LIMIT_S


def judge(output):
    """(what failed, how many tests passed) by the TAP lines in the output."""
    failed, passed, planned = [], 0, None
    for line in output.splitlines():
        name = line.partition(" - ")[2]
        if line.startswith("1.."):
            planned = int(line[3:].split()[0])
        elif line.startswith("ok "):
            passed += "# SKIP" not in line
            planned = planned and planned - 1
        elif line.startswith("not ok"):
            planned = planned and planned - 1
            if name not in DISTURBED:
                failed.append(name)
    if planned != 0 or passed == 0:
        failed.append("not all tests ran")
    return failed, passed


def main():
    programs = sys.argv[1:]
    if shutil.which("valgrind") is None or not forbid_io_uring():
        print("1..0 # SKIP no valgrind, or no seccomp filters here")
        return 77
    print("1..%d" % len(programs), flush=True)
    bad = 0
    for number, program in enumerate(programs, 1):
        output = run(program)
        failed, passed = judge(output)
        bad += bool(failed)
        print("%s %d - %s (%d tests)" % ("not ok" if failed else "ok", number,
                                         os.path.basename(program), passed), flush=True)
        if failed:
            lines = [line for line in output.splitlines() if not line.startswith(("ok ", "--"))]
            for line in lines[-SUMMARY:] + failed:
                print("# " + line)
    return 1 if bad else 0


sys.exit(main())
