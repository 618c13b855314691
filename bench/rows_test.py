#!/usr/bin/env python3
"""rows_test WEFT_BENCH SUITE... - runs a quick round of each row and checks that weft did all of them.

Says nothing about speed. What weft allocates for each operation is not a matter of speed: nothing, but
for unbounded channels, which grow as far as their senders are ahead.
"""
import json
import subprocess
import sys


def problems(row):
    """What is wrong with a row."""
    for contender in row["contenders"]:
        name, why = contender["name"], contender.get("skipped")
        if not name.startswith("weft") or why == "needs two CPUs":
            continue
        if why is not None:
            yield "%s: %s was skipped: %s" % (row["row"], name, why)
        for metric in contender.get("metrics", []):
            if metric["unit"] == "bytes_per_op" and metric["median"] >= 1 and "unbounded" not in row["row"]:
                yield "%s: %s allocates %.1f bytes for each" % (row["row"], name, metric["median"])


def main():
    run = subprocess.run([sys.argv[1], "--quick", "--runs", "1", "--no-peers", "--json"] + sys.argv[2:],
                         stdout=subprocess.PIPE, text=True, check=True)
    rows = json.loads(run.stdout)["rows"]
    wrong = [problem for row in rows for problem in problems(row)]
    if not rows:
        wrong.append("no rows")
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


main()
