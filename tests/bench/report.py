"""The figures of a run, as a table and as JSON: report.py ABOUT SAMPLES RESULT_JSON

ABOUT has lines "NAME VALUE" about machine and versions, SAMPLES lines "SYSTEM.NAME VALUE", one for each round.
Medians of the rounds count; what is between brackets is the lowest and the highest round.
"""

import json
import statistics
import sys

SYSTEMS = {"duepost": "Duepost", "bullmq": "BullMQ", "bee-queue": "bee-queue"}
MILLION = "with a million pending"
CPU = "  CPU a task: gateway, Redis"


def cpu(prefix):
    return (prefix + "gateway_us_per_task", prefix + "redis_us_per_task")


# (what, name of the figure, unit, name of the limit beside it)
ROWS = [
    ("create, one a request", "create.single_per_s", "/s", "create.bare_per_s"),
    (CPU, cpu("create.single_"), "us", None),
    ("create, batches of 100", "create.batch_per_s", "/s", "create.bare_batch_per_s"),
    (CPU, cpu("create.batch_"), "us", None),
    ("create, payload of 1 KiB", "create.payload_1k_per_s", "/s", None),
    ("create, payload of 16 KiB", "create.payload_16k_per_s", "/s", None),
    ("create, in the round of the next", "create.beside_none_per_s", "/s", None),
    ("create, " + MILLION, "create.beside_pending_per_s", "/s", None),
    ("deliver a backlog", "deliver.backlog_per_s", "/s", "deliver.bare_per_s"),
    (CPU, cpu("deliver.backlog_"), "us", None),
    ("deliver at a steady rate", "deliver.steady_per_s", "/s", None),
    ("  p50, p99 late", ("deliver.steady_p50", "deliver.steady_p99"), "ms", None),
    (CPU, cpu("deliver.steady_"), "us", None),
    ("create and deliver at once", "e2e.per_s", "/s", None),
    (CPU, cpu("e2e."), "us", None),
    ("  tasks", "e2e.tasks", "", None),
    ("  gateway memory before, after", ("e2e.before_kib", "e2e.after_kib"), "KiB", None),
]
LATENESS = [
    ("100 tasks/s", "100"),
    ("1000 tasks/s", "1000"),
    ("5000 tasks/s", "5000"),
    ("1000/s " + MILLION, "pending"),
    ("1000/s beside slow receivers", "slow"),
]
for text, load in LATENESS:
    name = f"lateness.{load}."
    ROWS.append((f"lateness at {text}: p50", name + "p50", "ms", None))
    ROWS.append(("  p99, p99.9", (name + "p99", name + "p999"), "ms", None))
    ROWS.append(("  worst; sender behind by", (name + "max", name + "behind_ms"), "ms", None))
ROWS += [
    ("burst in one ms, drained at", "burst.per_s", "/s", None),
    (CPU, cpu("burst."), "us", None),
    ("  longest call in Redis", "burst.longest_call_ms", "ms", None),
    ("  the same, Redis never preempted", "burst.longest_call_alone_ms", "ms", None),
    ("  Redis was preempted", "burst.preempted", "times", None),
    ("  PING of another client: p99, worst", ("burst.ping_p99", "burst.ping_max"), "ms", None),
    ("slow receivers: in flight", "slow.in_flight", "", None),
    (CPU, cpu("slow."), "us", None),
    ("  gateway memory at most (RSS), private", ("slow.peak_kib", "slow.private_kib"), "KiB", None),
    ("Redis memory a pending task, 200 B payload", "pending.bytes_per_task", "B", None),
    ("start, empty", "pending.start_empty_ms", "ms", None),
    ("start, " + MILLION, "pending.start_ms", "ms", None),
    ("gateway memory, " + MILLION, "pending.private_kib", "KiB", None),
    ("gateway memory, idle", "idle.private_kib", "KiB", None),
    ("idle: Redis commands", "idle.commands_per_s", "/s", None),
    ("idle: gateway CPU", "idle.cpu_percent", "%", None),
]


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split(" ", 1) for line in file]


def read_figures(path):
    """{"duepost.create.single_per_s": {"median", "min", "max", "rounds"}}"""
    rounds = {}
    for name, value in read_lines(path):
        rounds.setdefault(name, []).append(float(value))
    for threads in zip(*(rounds.get(f"duepost.deliver.bare_{n}_threads_per_s", []) for n in (1, 2))):
        rounds.setdefault("duepost.deliver.bare_per_s", []).append(max(threads))
    return {
        name: {"median": statistics.median(v), "min": min(v), "max": max(v), "rounds": v}
        for name, v in rounds.items()
    }


def number(value):
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Goals:
    """The goals of the project, each judged by the medians; those that were not measured are left out."""

    def __init__(self, figures):
        self.figures = figures
        self.list = []

    def get(self, name):
        return self.figures.get(name, {}).get("median")

    def add(self, work, goal, reached, is_reached):
        self.list.append({"work": work, "goal": goal, "reached": reached, "ok": is_reached})

    def at_least(self, work, name, least, unit):
        value = self.get("duepost." + name)
        if value is not None:
            self.add(work, f"at least {number(least)}{unit}", f"{number(value)}{unit}", value >= least)

    def at_most(self, work, name, most, unit):
        value = self.get("duepost." + name)
        if value is not None:
            self.add(work, f"at most {number(most)}{unit}", f"{number(value)}{unit}", value <= most)

    def ratio(self, work, name, other, of_what, least):
        a, b = self.get("duepost." + name), self.get(other)
        if a is not None and b:
            self.add(work, f"at least {least} x {of_what}", f"{a / b:.2f} x", a / b >= least)

    def lateness(self, work, load):
        """p50 and p99 against those of 1000/s alone; p99.9 is shown, and not judged: it is a handful of tasks."""
        pairs = [
            (self.get(f"duepost.lateness.{load}.{p}"), self.get(f"duepost.lateness.1000.{p}"))
            for p in ("p50", "p99", "p999")
        ]
        if all(a is not None and b for a, b in pairs):
            ratios = [a / b for a, b in pairs]
            text = "p50, p99, p99.9: " + ", ".join(f"{r:.2f}" for r in ratios) + " x"
            self.add(work, "p50, p99 at most 1.2 x 1000/s alone", text, max(ratios[:2]) <= 1.2)


def judge(figures):
    goals = Goals(figures)
    work = "create, one a request"
    goals.ratio(work, "create.single_per_s", "duepost.create.bare_per_s", "redis-benchmark", 0.9)
    goals.ratio(work, "create.single_per_s", "bullmq.create.single_per_s", "BullMQ", 3.5)
    goals.at_least("create, batches of 100", "create.batch_per_s", 100000, "/s")
    work = "deliver a backlog"
    goals.ratio(work, "deliver.backlog_per_s", "duepost.deliver.bare_per_s", "libcurl alone", 0.5)
    goals.ratio(work, "deliver.backlog_per_s", "bullmq.deliver.backlog_per_s", "BullMQ", 2.5)
    work = "create and deliver at once"
    goals.at_least(work, "e2e.per_s", 20000, "/s")
    goals.ratio(work, "e2e.per_s", "bullmq.e2e.per_s", "BullMQ", 4)
    for name, most in (("p50", 0.7), ("p99", 3), ("p999", 10)):
        goals.at_most(f"lateness at 1000/s, {name.replace('999', '99.9')}", f"lateness.1000.{name}", most, " ms")
    goals.lateness("lateness " + MILLION, "pending")
    goals.ratio("create " + MILLION, "create.beside_pending_per_s", "duepost.create.beside_none_per_s", "none", 0.9)
    goals.at_most("burst in one ms, longest call", "burst.longest_call_ms", 5, " ms")
    goals.at_most("  the same, Redis never preempted", "burst.longest_call_alone_ms", 5, " ms")
    goals.ratio("burst in one ms, drained", "burst.per_s", "duepost.deliver.backlog_per_s", "a backlog", 0.9)
    goals.at_least("slow receivers, in flight", "slow.in_flight", 4900, "")
    goals.at_most("  gateway memory", "slow.peak_kib", 150 * 1024, " KiB")
    goals.lateness("  a fast receiver beside them", "slow")
    goals.at_most("Redis memory a pending task", "pending.bytes_per_task", 420, " B")
    goals.at_most("idle, gateway CPU", "idle.cpu_percent", 0.2, " %")
    goals.at_most("idle, Redis commands", "idle.commands_per_s", 5, "/s")
    return goals.list


def cell(figures, system, names, unit):
    """The median and its spread; of a pair only the medians."""
    if isinstance(names, tuple):
        found = [figures.get(f"{system}.{name}") for name in names]
        return ", ".join(number(f["median"]) for f in found) + " " + unit if all(found) else ""
    f = figures.get(f"{system}.{names}")
    if not f:
        return ""
    spread = f" ({number(f['min'])}..{number(f['max'])})" if len(f["rounds"]) > 1 else ""
    return f"{number(f['median'])} {unit}".rstrip() + spread


def limit_cell(figures, name, limit):
    reached, most = figures.get("duepost." + name), figures.get(f"duepost.{limit}")
    if not reached or not most or not most["median"]:
        return ""
    return f"{number(most['median'])} (share {reached['median'] / most['median']:.2f})"


def print_columns(rows):
    rows = [row for row in rows if any(row[1:])]
    keep = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    widths = {i: max(len(row[i]) for row in rows) for i in keep}
    for row in rows:
        print("  ".join(row[i].ljust(widths[i]) for i in keep).rstrip())
    print()


def print_tables(about, figures, goals):
    print(f"machine   {about['machine']}, {about['cores']} cores shared by everything; {about['kernel']}")
    print(f"load      {about['load_before']} before the start")
    setups = [n for n in about if n.startswith("setup_")]
    others = ("machine", "cores", "memory_kib", "kernel", "load_before", "repeat", *setups)
    print("versions  " + ", ".join(f"{n} {v}" for n, v in about.items() if n not in others))
    for name in setups:
        _, system, part = name.split("_")
        api, workers = about[name].split()
        print(f"setup     {SYSTEMS[system]}, {part}: {api} processes take requests, {workers} deliver")
    print(f"rounds    {about['repeat']}: medians (lowest..highest)\n")
    rows = [("what", *SYSTEMS.values(), "the limit")]
    for what, names, unit, limit in ROWS:
        cells = [cell(figures, system, names, unit) for system in SYSTEMS]
        rows.append((what, *cells, limit_cell(figures, names, limit) if limit else ""))
    print_columns(rows)
    for kind in ("repeats", "early"):
        found = {n: f["max"] for n, f in figures.items() if n.endswith(kind) and n.startswith("duepost.")}
        bad = ", ".join(f"{n} {v:.0f}" for n, v in found.items() if v > 0)
        print(f"{kind + ':':9} {bad or 'none'}, in {len(found)} measurements")
    print()
    if goals:
        print_columns(
            [("goal", "", "reached", "")]
            + [(g["work"], g["goal"], g["reached"], "ok" if g["ok"] else "MISS") for g in goals]
        )


def main():
    about = dict(read_lines(sys.argv[1]))
    figures = read_figures(sys.argv[2])
    goals = judge(figures)
    print_tables(about, figures, goals)
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        json.dump({"about": about, "figures": figures, "goals": goals}, file, indent=1)
        file.write("\n")
    print(f"written: {sys.argv[3]}")


main()
