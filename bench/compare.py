#!/usr/bin/env python3
"""Writes the tables of COMPARE.md, all from one run of `bench/all.sh --json DIR`.

  bench/compare.py DIR            writes them
  bench/compare.py DIR --print    prints them

A table stands between `<!-- bench/compare.py NAME -->` and `<!-- end -->`, and so does the date of the run. A row that a run
does not have is left out; a table that it does not have is an error, and nothing is written.
"""

import argparse
import json
import math
import re
import sys
from datetime import date
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "COMPARE.md"
FAMILIES = ["in-process", "redis", "server"]

GOVERNOR = "governor (quanta)"


class Column:
    """A column of a table that a run printed: as it is or, with `against`, how many times as fast as another row."""

    def __init__(self, head, family, title, column, against=None, less=True):
        self.head, self.family, self.title, self.column = head, family, title, column
        self.against, self.less = against, less

    def read(self, runs):
        for table in runs[self.family]["tables"]:
            if table["title"] == self.title:
                at = table["columns"].index(self.column)
                rows = {row["name"]: row["values"][at] for row in table["rows"] if "values" in row}
                if not self.against:
                    return rows
                other = rows[self.against]
                ratio = (lambda n: other / n) if self.less else (lambda n: n / other)
                return {name: ratio(value) if value else None for name, value in rows.items()}
        sys.exit(f"bench/compare.py: the run of {self.family} has no table {self.title!r}; COMPARE.md needs a full run")


def same(family, title, *columns):
    """Columns of one table, under their own names."""
    return [Column(name, family, title, name) for name in columns]


def compared(head, title, column, less=True):
    """A column of the limiters in process, and the same against governor."""
    here = ["in-process", title, column]
    return [Column(head, *here), Column("× governor", *here, against=GOVERNOR, less=less)]


def strings(column, less=True):
    sizes = [("10,000", "10000"), ("1,000,000", "1000000"), ("10,000,000", "10000000")]
    return [one for head, keys in sizes for one in compared(head, f"{keys} String keys", column, less)]


def redis(title, *by):
    rates = [f"× {peer}" for peer in by]
    return same("redis", f"{title}: speed", "k decisions/s", *rates, "p50 µs", "p99 µs", "p50 µs, 1 caller", "p99 µs, 1 caller", "client CPU µs")


def cost(title):
    return same("redis", f"{title}: what it costs Redis", "CPU µs", "busy", "commands", "round trips, 1 caller", "passed of 200, right is 10")


SPREAD, HOT, COLD = "10000 keys", "100 hot keys", "Keys that never come again"

# By name: what the first column is called, and the columns.
TABLES = {
    "strings": ("ns, one thread, String keys", compared("one limiter", "One limiter", "ns, 1 thread") + strings("ns, 1 thread")),
    "numbers": (
        "ns, one thread, short keys",
        compared("10,000 IP addresses", "10000 IpAddr keys", "ns, 1 thread")
        + compared("10,000,000 integers", "10000000 u64 keys", "ns, 1 thread"),
    ),
    "pairs": (
        "M/s, two threads, String keys",
        compared("one limiter", "One limiter", "M/s, 2 threads", less=False) + strings("M/s, 2 threads", less=False),
    ),
    "memory": ("10,000,000 keys", same("in-process", "Memory at 10000000 keys", "bytes per key", "worst from a tenth on")),
    "growing": (
        "worst single decision, µs",
        [
            Column("while keys are added", "in-process", "Pauses while 10000000 String keys are added", "worst µs"),
            Column("while they expire", "in-process", "Pauses while they expire and as many others are added", "worst µs"),
        ],
    ),
    "algorithms": ("one key of 10,000, one thread", same("in-process", "Algorithms: 10000 u64 keys, TSC", "ns, 1 thread", "time of gcra")),
    "redis": ("", redis(SPREAD, "plain Lua", "redis-cell")),
    "redis-cost": ("", cost(SPREAD)),
    "redis-memory": ("", same("redis", f"{SPREAD}: memory in Redis", "bytes per key", "in use per key", "more per decision")),
    "hot": ("", redis(HOT, "plain Lua", "trypema hybrid")),
    "hot-cost": ("", cost(HOT)),
    "cold": ("", redis(COLD, "plain Lua", "trypema hybrid")),
    "cold-cost": ("", cost(COLD)),
    "http": ("HTTP, 32 connections", same("server", "HTTP, 32 connections", "k requests/s", "× nginx", "p50 µs", "p99 µs", "CPU µs")),
    "batches": (
        "checks in a request",
        same("server", "HTTP, several checks in a request", "k decisions/s", "× one at a time", "CPU µs per decision"),
    ),
    "resp": (
        "Redis protocol, 4 connections: k commands/s, by pipeline",
        same("server", "Redis protocol, 4 connections: k commands/s by pipeline", "1", "16", "64", "256"),
    ),
    "grpc": (
        "gRPC, 64 calls on one connection",
        same("server", "gRPC, 64 calls on one connection", "k calls/s", "× tonic echo", "p50 µs", "p99 µs", "CPU µs"),
    ),
    "layer": (
        "an axum application",
        same("server", "Tower layer around axum", "k requests/s", "× bare", "p99 µs", "CPU µs", "CPU µs added")
        + [Column("added, without sockets", "server", "Tower layer around axum, called without sockets", "CPU µs added")],
    ),
}


# What `bench/instructions.sh --layer` sets the layer to.
LAYERS = {
    "routes": "two rules with a path each, the key in a header field, no header fields in the response",
    "header": "one rule, the key in a header field, the IETF's fields in the response",
    "ipv4": "one rule, the client's IPv4 address, the IETF's fields in the response",
    "ipv6": "one rule, the client's IPv6 address, the IETF's fields in the response",
}


def figures(value):
    """With two decimals below ten, one below a hundred: more is not known."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def lines(head, heads, rows):
    yield f"| {head} | {' | '.join(heads)} |"
    yield "|---|" + "---:|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def table(name, runs):
    head, columns = TABLES[name]
    cells = [column.read(runs) for column in columns]
    names = list(dict.fromkeys(name for column in cells for name in column))
    rows = [[name, *(figures(column.get(name)) for column in cells)] for name in names]
    return lines(head, [column.head for column in columns], [row for row in rows if set(row[1:]) != {"–"}])


def goals(runs):
    rows = []
    for family in FAMILIES:
        for goal in runs[family]["goals"]:
            bound = f"≥ {goal['at_least']:g}" if "at_least" in goal else f"≤ {goal['at_most']:g}"
            verdict = {True: "met", False: "**missed**", None: "not measured"}[goal["met"]]
            rows.append([goal["what"], figures(goal["measured"]), bound, verdict])
    met = sum(row[3] == "met" for row in rows)
    yield f"{met} of {len(rows)} goals are met."
    yield ""
    yield "| | measured | our goal | |"
    yield "|---|---:|---:|---|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def instructions(directory):
    yield "| | instructions | allocations |"
    yield "|---|---:|---:|"
    for line in (directory / "layer.txt").read_text().splitlines():
        layer, instructions, _, allocations, _ = line.split()
        yield f"| {LAYERS[layer]} | {int(instructions):,} | {allocations} |"


def measured_on(directory):
    day = date.fromtimestamp((directory / "in-process.json").stat().st_mtime)
    yield f"Measured on {day.day} {day:%B %Y}."


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    runs = {family: json.loads((options.directory / f"{family}.json").read_text()) for family in FAMILIES}
    page = PAGE.read_text()
    others = {
        "date": measured_on(options.directory),
        "goals": goals(runs),
        "instructions": instructions(options.directory),
    }

    def fill(match):
        name = match[1]
        if name not in others and name not in TABLES:
            sys.exit(f"bench/compare.py: COMPARE.md asks for a table {name!r}, which is not known here")
        new = "\n".join(others[name] if name in others else table(name, runs))
        if options.print:
            print(f"{name}\n\n{new}\n")
        return f"<!-- bench/compare.py {name} -->\n{new}\n<!-- end -->"

    page = re.sub(r"<!-- bench/compare\.py (\S+) -->\n.*?<!-- end -->", fill, page, flags=re.S)
    if not options.print:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
