#!/usr/bin/env python3
"""gdb_test.py SCRIPT PROGRAM - the gdb commands, on a process that gdb started, on one that it
attached to, and on the kernel's core file.
Skipped (77) where there is no gdb or it may not trace."""
import glob
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

script, program = (os.path.abspath(argument) for argument in sys.argv[1:3])
environment = dict(os.environ, DEBUGINFOD_URLS="", WEFT_IO="epoll",
                   ASAN_OPTIONS="detect_leaks=0:handle_abort=0:disable_coredump=0",
                   TSAN_OPTIONS="handle_abort=0:disable_coredump=0")
results = []


def gdb(*arguments, commands):
    line = ["gdb", "-q", "-nx", "-batch", "-iex", "set disable-randomization off"]
    for command in commands:
        line += ["-ex", command]
    done = subprocess.run(line + list(arguments), env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, timeout=200)
    return done.stdout


def check(name, holds, shown=""):
    results.append(bool(holds))
    print("%s %d - %s" % ("ok" if holds else "not ok", len(results), name))
    if not holds:
        for line in shown[-6000:].splitlines():
            print("# " + line)


def skip(name, reason):
    results.append(True)
    print("ok %d - %s # SKIP %s" % (len(results), name, reason))


def section(output, start, end):
    """What was printed between two `echo` marks."""
    return output.partition("[" + start + "]")[2].partition("[" + end + "]")[0]


LOOK = ["source " + script, "echo [tasks]\\n", "weft tasks", "echo [bt]\\n", "weft bt all",
        "echo [use]\\n", "weft use %d", "up 20", "info locals", "bt -4", "weft use", "echo [back]\\n",
        "bt", "weft bt 123456789", "weft bt what", "echo [end]\\n"]


def judge(where, output, napper):
    tasks = section(output, "tasks", "bt")
    backtraces = section(output, "bt", "use")
    check(where + ": tasks have name, kind, state, carrier, reason and spawn site",
          re.search(r"^ +%d +napper +thread +waiting +0 +sleep +gdb_test_program.c:\d+$" % napper,
                    tasks, re.M), output)
    check(where + ": every task is listed", len(re.findall(r"^ +\d+ +napper ", tasks, re.M)) == 40 and
          "1 carriers, 45 tasks" in tasks, output)
    for line in (r"big napper +thread +waiting", r"never +future +parked", r"aborter +thread +running",
                 r"unstarted +thread +ready", r"main +thread +waiting +0 +join"):
        check(where + ": " + line.replace(" +", " "), re.search(line, tasks), output)
    each = dict(re.findall(r'^task \d+ "([^"]*)",.*\n((?:.+\n)+)', backtraces, re.M))
    for name in ("napper", "big napper"):
        text = each.get(name, "")
        check("%s: the backtrace of a %s shows the user's functions" % (where, name),
              len(re.findall(r" dream \(", text)) >= 2 and "weft_sleep" in text and
              re.search(r" napper \(arg=", text), output)
        check("%s: and ends where its stack begins" % where,
              re.search(r"weft\S+switch_start[^\n]*\n$", text), output)
    check(where + ": the backtrace of a running task", "aborter (arg=" in each.get("aborter", "") and
          "abort" in each.get("aborter", ""), output)
    check(where + ": what an unstarted task will do",
          "not started yet" in each.get("unstarted", "") and "<unstarted>" in each["unstarted"],
          output)
    check(where + ": a chosen task can be walked", "napper (arg=" in section(output, "use", "back"),
          output)
    after = section(output, "back", "end")
    check(where + ": and left again", "aborter (" in after and "dream" not in after, output)
    check(where + ": unknown tasks are refused", "there is no task 123456789" in after and
          "a task number is needed" in after, output)


def test_live():
    output = gdb(program, commands=["run", "source " + script, "weft tasks napper"])
    if "ptrace" in output and "not permitted" in output:
        sys.exit(77)
    found = re.search(r"^ +(\d+) +napper ", output, re.M)
    check("live: the program is looked at", found, output)
    if found:
        napper = int(found[1])
        look = [command % napper if "%d" in command else command for command in LOOK]
        judge("live", gdb(program, commands=["run"] + look), napper)
    return found


def test_attach():
    """The selected frame is libc's system call then, in assembler or without debug information."""
    with subprocess.Popen([program, "idle"], env=environment, stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            idle = process.stdout.readline() == "idle\n"
            output = gdb("-p", str(process.pid), commands=[
                "source " + script, "echo [auto]\\n", "weft tasks", "echo [asm]\\n",
                "set language asm", "weft tasks", "echo [c++]\\n", "set language c++", "weft tasks",
                "weft bt all", "echo [end]\\n"])
        finally:
            process.kill()
    if "ptrace" in output and "not permitted" in output:
        skip("attach", "gdb may not attach to a process")
        return
    for language, after in (("auto", "asm"), ("asm", "c++"), ("c++", "end")):
        check("attach: tasks, with the language " + language, idle and re.search(
            r"^ +\d+ +napper +thread +waiting +0 +sleep +gdb_test_program.c:\d+$",
            section(output, language, after), re.M), output)
    check("attach: a backtrace", " napper (arg=" in section(output, "c++", "end"), output)


def test_core(napper):
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
        pattern = file.read().strip()
    if pattern.startswith("|") or "/" in pattern:
        skip("core", "core files go to " + pattern)
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program], cwd=folder, env=environment, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       preexec_fn=lambda: resource.setrlimit(
                           resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2))
        cores = glob.glob(folder + "/*core*")
        if not cores:
            skip("core", "the kernel left no core file")
            return
        look = [command % napper if "%d" in command else command for command in LOOK]
        judge("core", gdb(program, cores[0], commands=look), napper)


def main():
    if shutil.which("gdb") is None:
        return 77
    if "yes" not in gdb(commands=["python print('yes')"]):
        return 77
    found = test_live()
    test_attach()
    if found and "sanitize" not in sys.argv[3:]:
        test_core(int(found[1]))
    print("1..%d" % len(results))
    return 0 if all(results) else 1


sys.exit(main())
