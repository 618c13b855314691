#!/usr/bin/env python3
"""matrix_test.py ROOT - tools/matrix runs every combination once, samples so that every two values meet,
and says how to repeat what failed. ninja and meson are replaced by scripts that know the answer."""
import importlib.machinery
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
TOOL = sys.argv[1] + "/tools/matrix"
results = []

# Says which variables it was called with, and that one test of two failed under the last policy.
MESON = r"""#!/usr/bin/env python3
import json, os, sys
seen = {name: os.environ[name] for name in sorted(os.environ)
        if name.startswith("WEFT_") or name == "TEST_DRIVER"}
with open("calls", "a") as calls:
    calls.write(json.dumps([seen, sys.argv[1:]]) + "\n")
bad = seen.get("WEFT_SCHED") == "stealing"
tap = "1..3\n# seed 77\nok 1 - fine\n%sok 2 - turns/epoll\n# why\nok 3 - other # SKIP no\n" % (
    "not " if bad else "")
os.makedirs("b/meson-logs", exist_ok=True)
with open("b/meson-logs/testlog.json", "w") as log:
    log.write(json.dumps({"name": "x", "result": "FAIL" if bad else "OK", "stdout": tap,
                          "command": [os.getcwd() + "/b/tests/x_test"]}) + "\n")
sys.exit(int(os.environ.get("FAKE_MESON", bad)))
"""


def check(name, holds, shown=""):
    results.append(holds)
    print("%s %d - %s" % ("ok" if holds else "not ok", len(results), name))
    if not holds:
        for line in str(shown)[-4000:].splitlines():
            print("# " + line)


def load():
    loader = importlib.machinery.SourceFileLoader("matrix", TOOL)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("matrix", loader))
    loader.exec_module(module)
    return module


def run(*arguments, **variables):
    """Exit status, output, and the calls of meson."""
    with tempfile.TemporaryDirectory() as tree:
        os.mkdir(tree + "/bin")
        for name, text in {"ninja": "#!/bin/sh\nexit ${FAKE_NINJA:-0}\n", "meson": MESON}.items():
            with open(tree + "/bin/" + name, "w", encoding="utf-8") as script:
                script.write(text)
            os.chmod(tree + "/bin/" + name, 0o755)
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("WEFT_", "MATRIX", "TEST_"))}
        clean.update(variables, PATH=tree + "/bin:" + os.environ["PATH"])
        done = subprocess.run([TOOL, "b", *arguments], cwd=tree, env=clean, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        calls = []
        if os.path.exists(tree + "/calls"):
            with open(tree + "/calls", encoding="utf-8") as lines:
                calls = [json.loads(line) for line in lines]
        return done.returncode, done.stdout, calls


matrix = load()
modes = matrix.poller_modes()
for sizes in itertools.product(range(1, 5), range(1, 5), [2]):
    axes = [["%d.%d" % (axis, i) for i in range(size)] for axis, size in enumerate(sizes)]
    rows = list(itertools.product(*axes))
    sample = matrix.pairwise(rows)
    covered = set().union(*map(matrix.pairs, sample + rows[:2]))
    check("a sample of %dx%dx%d has all pairs and not the default" % sizes,
          covered == set().union(*map(matrix.pairs, rows)) and not set(sample) & set(rows[:2]),
          sample)

status, output, calls = run()
check("every policy and mode runs once", len(calls) == 3 * len(modes) ==
      len({json.dumps(seen) for seen, _ in calls}), calls)
combinations = 3 * (2 * len(modes) - ("tasks" in modes))
check("the product is named", "3 policies x %d poller modes x 2 drivers: %d combinations" %
      (len(modes), combinations) in output, output)
check("results are summed and failures fail", status == 1 and output.endswith(
    "\n%d passed, %d failed, %d skipped\n" % (5 * len(modes), len(modes), 3 * len(modes))), output)
check("what failed is repeated by one command",
      "    WEFT_SCHED=stealing TEST_SEED=77 b/tests/x_test turns/epoll\n" in output, output)
check("and explained", "not ok 2 - turns/epoll\n# why\n" in output, output)

status, output, calls = run(MATRIX="locality/%s/epoll steal/%s" % (modes[0], modes[0]))
check("some of them, by name", status == 0 and [seen for seen, _ in calls] ==
      [{"TEST_DRIVER": "epoll", "WEFT_IO": "epoll"}, {"WEFT_STEAL": "on"}], calls)
status, output, calls = run(MATRIX="locality/" + modes[0], WEFT_SCHED="stealing", WEFT_STEAL="on")
check("the caller's environment decides nothing", status == 0 and [seen for seen, _ in calls] ==
      [{}], calls)
status, output, calls = run(MATRIX="locality/" + modes[0], FAKE_MESON="3")
check("tests that came to no end have failed", status == 1 and "ended with status 3" in output and
      output.endswith("\n2 passed, 1 failed, 1 skipped\n"), output)
status, output, calls = run(MATRIX="stealling")
check("a name that is none is refused", status != 0 and not calls and "stealling" in output, output)
status, output, calls = run("--sample")
check("a sample runs the suite for it", calls and
      all(arguments[arguments.index("--suite") + 1] == "policy" for _, arguments in calls), calls)
status, output, calls = run(FAKE_NINJA="1")
check("nothing runs that was not built", status == 1 and not calls and
      output.endswith("0 passed, 1 failed, 0 skipped\n"), output)
status, output, calls = run("--list")
check("a list runs nothing", status == 0 and not calls and "stealing/" in output, output)

print("1..%d" % len(results))
sys.exit(0 if all(results) else 1)
