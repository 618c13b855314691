#!/usr/bin/env python3
"""checks_test.py ROOT - a check that cannot fail proves nothing: each one finds what it is there for
in a small tree made to offend, and nothing in the same tree made well."""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = sys.argv[1]
GOOD = {
    "include/weft/a.h": "#include <stdint.h>\n",
    "src/base/base.h": "#include <weft/a.h>\n",
    "src/sched/park.c": '#include "base/base.h"\n\nint weft__park(void)\n{\n    return 0;\n}\n',
    "src/time/sleep.c": '#include "sched/park.h"\n',
    "src/sched/park.h": "int weft__park(void);\n",
    "tests/api/x.c": "#include <weft/a.h>\n",
    "tools/check/layers.allow": "# none\n",
    "tools/check/sizes.allow": "# none\n",
}
LONG = "int f(void)\n{\n%s    return 0;\n}\n" % ("    work();\n" * 70)

# check, what to change in the good tree, what the check must say
CASES = [
    ("layers", {"src/base/up.c": '#include "sched/park.h"\n'}, "src/base/up.c:1: sched/park.h"),
    ("layers", {"src/net/net.h": "\n", "src/time/t.c": '#include "net/net.h"\n'}, "may not include"),
    ("layers", {"src/sched/near.c": '#include "park.h"\n'}, '"module/file.h"'),
    ("layers", {"src/sched/ring.c": "#include <liburing.h>\n"}, "only src/io/"),
    ("layers", {"src/odd/odd.c": '#include "base/base.h"\n'}, "has no layer"),
    ("layers", {"include/weft/b.h": "#include <pthread.h>\n"}, "public headers include"),
    ("layers", {"tests/api/y.c": '#include "base/base.h"\n'}, "only public headers"),
    ("layers", {"tools/check/layers.allow": "src/a.c base/base.h why\n"}, "no longer needed"),
    ("layers", {"src/base/up.c": '#include "sched/park.h"\n',
                "tools/check/layers.allow": "src/base/up.c sched/park.h a reason\n"}, None),
    ("sizes", {"src/base/f.c": LONG}, "f() has 73 lines"),
    ("sizes", {"src/base/f.c": "\n" * 801}, "801 lines, 800 at most"),
    ("sizes", {"include/weft/b.h": "\n" * 301}, "301 lines, 300 at most"),
    ("sizes", {"src/base/f.c": LONG, "tools/check/sizes.allow": "src/base/f.c:f a reason\n"}, None),
    ("text", {"src/base/f.c": "int a; \n"}, "src/base/f.c:1: trailing blanks"),
    ("text", {"src/base/f.c": "\tint a;\n"}, "src/base/f.c:1: tab"),
    ("text", {"src/base/f.c": "int a;"}, "no newline"),
    ("text", {"README.md": "FIX" "ME\n"}, "README.md:1: note"),
    ("format", {"src/base/f.c": "int f(void) { return  1; }\n"}, "src/base/f.c"),
    ("headers", {"include/weft/b.h": "size_t n;\n"}, "weft/b.h as c11"),
    ("headers", {"include/weft/b.h": "static inline int f(void) { int class = 1; return class; }\n"},
     "weft/b.h as c++17"),
    ("headers", {"src/base/bad.h": "struct a { uint64_t word; };\n"}, "base/bad.h as gnu17"),
]
NEEDS = {"format": ["clang-format"], "headers": ["clang", "clang++", "g++"]}


def run_check(check, files):
    with tempfile.TemporaryDirectory() as tree:
        shutil.copytree(ROOT + "/tools/check", tree + "/tools/check")
        shutil.copy(ROOT + "/.clang-format", tree)
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
            with open(os.path.join(tree, path), "w", encoding="utf-8") as file:
                file.write(text)
        subprocess.run(["git", "init", "-q", tree], check=True)
        done = subprocess.run(["tools/check/" + check, "build"], cwd=tree, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout


def main():
    cases = [(check, {}, None) for check in ("layers", "sizes", "text", "format", "headers")] + CASES
    print("1..%d" % len(cases))
    bad = 0
    for number, (check, changes, expected) in enumerate(cases, 1):
        name = "%d - %s: %s" % (number, check, expected or "nothing wrong with %s" % (
            ", ".join(changes) or "the good tree"))
        missing = [p for p in ["git"] + NEEDS.get(check, []) if not shutil.which(p)]
        if missing:
            print("ok %s # SKIP there is no %s" % (name, missing[0]))
            continue
        status, output = run_check(check, {**GOOD, **changes})
        if (status == 0) if expected is None else (status != 0 and expected in output):
            print("ok " + name)
        else:
            bad += 1
            print("not ok %s\n# status %d\n# %s" % (name, status, output.replace("\n", "\n# ")))
    return 1 if bad else 0


sys.exit(main())
