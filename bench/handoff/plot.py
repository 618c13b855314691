#!/usr/bin/env python3
"""plot.py [IN.json] > OUT.svg - draws what `weft-bench handoff --json` has measured.

Four panels over the rate of requests: latencies at 50, 99 and 99.9 % (logarithmic where they are far
apart) and CPU time of the front for each request. A line for each contender: its medians; pinned ones are dashed.
"""
import json
import math
import sys
from xml.sax.saxutils import escape

# The back end's millisecond is in every latency, so those axes need not begin at 0.
PANELS = [("p50_us", "latency, median (us)", False), ("p99_us", "latency, 99 % (us)", False),
          ("p99.9_us", "latency, 99.9 % (us)", False),
          ("server_cpu_us_per_request", "CPU time of the front per request (us)", True)]
LOGARITHMIC_FROM = 5  # times the least is the greatest
# Colours that are told apart by colour-blind readers, too.
STYLES = {
    "weft-unified": ("#0072b2", ""), "weft-unified-pinned": ("#0072b2", "6 3"),
    "weft-split": ("#d55e00", ""), "weft-split-pinned": ("#d55e00", "6 3"),
    "weft-split-double": ("#cc79a7", ""), "weft-stealing": ("#009e73", ""), "go": ("#555555", ""),
}
OTHER = ("#000000", "2 2")
WIDTH, HEIGHT = 420, 260  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 30, 40
LEGEND = 80


def read(data):
    """{metric: {contender: [(rate, median)]}}, the contenders in their order, where it was."""
    series, names, result = {}, [], json.loads(data)
    for row in result["rows"]:
        if row["suite"] != "handoff":
            continue
        rate = float(row["row"].rsplit("-", 1)[1])
        for contender in row["contenders"]:
            for metric in contender.get("metrics", []):
                of_metric = series.setdefault(metric["unit"], {})
                of_metric.setdefault(contender["name"], []).append((rate, metric["median"]))
                if contender["name"] not in names:
                    names.append(contender["name"])
    machine = result.get("machine", {})
    where = ", ".join("%s" % machine[key] for key in ("cpu", "kernel") if key in machine)
    if "cpus" in machine:
        where += ", %d CPUs" % machine["cpus"]
    if machine.get("load_average", 0) >= 1:
        where += ", busy with other things: load average %.1f" % machine["load_average"]
    return series, names, where


def ticks(low, high, logarithmic):
    """Round numbers that enclose both ends."""
    if logarithmic:
        steps = [m * 10 ** e for e in range(-1, 9) for m in (1, 2, 5)]
        first = max(i for i, s in enumerate(steps) if s <= low)
        last = min(i for i, s in enumerate(steps) if s >= high)
        return steps[first:last + 1]
    span = max(high - low, high / 100)
    unit = 10 ** math.floor(math.log10(span))
    step = next(s for s in (unit / 5, unit / 2, unit, 2 * unit, 5 * unit) if span / s <= 5)
    return [i * step for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


class Scale:
    """Values to coordinates."""

    def __init__(self, low, high, start, end, logarithmic):
        self.f = math.log10 if logarithmic else float
        self.low, self.span = self.f(low), (self.f(high) - self.f(low)) or 1.0
        self.start, self.length = start, end - start

    def __call__(self, value):
        return self.start + (self.f(value) - self.low) / self.span * self.length


def text(x, y, words, anchor="middle", size=11, weight="normal"):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" font-weight="%s">%s</text>' % (
        x, y, anchor, size, weight, escape(words))


def line(points, colour, dash="", width=1.0):
    return '<polyline points="%s" fill="none" stroke="%s" stroke-width="%.1f"%s/>' % (
        " ".join("%.1f,%.1f" % p for p in points), colour, width,
        ' stroke-dasharray="%s"' % dash if dash else "")


def panel(x0, y0, title, lines, from_zero):
    """The elements of one panel whose corner is at x0, y0."""
    rates = sorted({rate for points in lines.values() for rate, _ in points})
    values = [value for points in lines.values() for _, value in points if value > 0]
    logarithmic = not from_zero and max(values) > LOGARITHMIC_FROM * min(values)
    marks = ticks(0 if from_zero else min(values), max(values), logarithmic)
    left, right = x0 + LEFT, x0 + WIDTH - RIGHT
    top, bottom = y0 + TOP, y0 + HEIGHT - BOTTOM
    at_x = Scale(rates[0], rates[-1], left + 14, right - 14, False)
    at_y = Scale(marks[0], marks[-1], bottom, top, logarithmic)
    yield text((left + right) / 2, y0 + 18, title, size=12, weight="bold")
    for mark in marks:
        yield line([(left, at_y(mark)), (right, at_y(mark))], "#dddddd")
        yield text(left - 6, at_y(mark) + 4, "%g" % mark, "end")
    for rate in rates:
        yield line([(at_x(rate), bottom), (at_x(rate), bottom + 4)], "#555555")
        yield text(at_x(rate), bottom + 17, "%g" % rate)
    yield text((left + right) / 2, bottom + 33, "requests per second")
    for name, points in lines.items():
        colour, dash = STYLES.get(name, OTHER)
        shown = [(at_x(rate), at_y(value)) for rate, value in points if value > 0]
        yield line(shown, colour, dash, 1.8)
        for x, y in shown:
            yield '<circle cx="%.1f" cy="%.1f" r="2.6" fill="%s"/>' % (x, y, colour)


def legend(names, y0):
    for i, name in enumerate(names):
        x, y = 30 + (i % 4) * 200, y0 + 16 + (i // 4) * 22
        colour, dash = STYLES.get(name, OTHER)
        yield line([(x, y), (x + 30, y)], colour, dash, 2.4)
        yield text(x + 38, y + 4, name, "start", 12)


def draw(series, names, where):
    width, height = 2 * WIDTH, 2 * HEIGHT + LEGEND
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" '
             'font-family="sans-serif">' % (width, height, width, height),
             '<rect width="100%" height="100%" fill="#ffffff"/>']
    for i, (metric, title, from_zero) in enumerate(PANELS):
        if series.get(metric):
            parts += panel(i % 2 * WIDTH, i // 2 * HEIGHT, title, series[metric], from_zero)
    parts += legend(names, 2 * HEIGHT)
    parts.append(text(30, height - 10, where, "start"))
    return "\n".join(parts + ["</svg>"])


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    with open(sys.argv[1] if len(sys.argv) == 2 else 0, encoding="utf-8") as file:
        series, names, where = read(file.read())
    if not names:
        sys.exit("plot.py: no row of `handoff` with results; run: weft-bench handoff --json")
    print(draw(series, names, where))


if __name__ == "__main__":
    main()
