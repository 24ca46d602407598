"""How late tasks are, by load, as an SVG: plot.py RESULT_JSON OUT_SVG

One panel for each system; in it a line for each percentile over the loads, on a logarithmic scale in ms that all
panels share. Nothing but the standard library is needed.
"""

import json
import math
import sys

SYSTEMS = (("duepost", "Duepost"), ("bullmq", "BullMQ"), ("bee-queue", "bee-queue"))
LOADS = (("100", "100/s"), ("1000", "1000/s"), ("5000", "5000/s"), ("pending", "1000/s, 1 M pending"))
PERCENTILES = (("p50", "p50", "#1b7837"), ("p99", "p99", "#e08214"), ("p999", "p99.9", "#b2182b"))
# Where the number of a point stands, so that those of a load do not meet: to the right, down, and from which end.
NUMBER_AT = {"p50": (0, 16, "middle"), "p99": (-7, 4, "end"), "p999": (0, -8, "middle")}

TOP, LEFT, HEIGHT, BOTTOM, GAP, STEP = 64, 88, 280, 56, 32, 96
LEAST_MS = 0.1


def read_panels(path):
    """[(title, [(load's label, {percentile: ms})])]"""
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    panels = []
    for system, title in SYSTEMS:
        loads = []
        for load, label in LOADS:
            found = {p: result["figures"].get(f"{system}.lateness.{load}.{p}") for p, _, _ in PERCENTILES}
            if all(found.values()):
                loads.append((label, {p: max(f["median"], LEAST_MS) for p, f in found.items()}))
        if loads:
            panels.append((title, loads))
    return result["about"], panels


class Drawing:
    def __init__(self):
        self.parts = []

    def text(self, x, y, text, anchor="middle", size=12, colour="#222"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{text}</text>'
        )

    def line(self, points, colour, width=1.0):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def dot(self, x, y, colour):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>')

    def svg(self, width, height):
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif">\n'
            f'<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n"
        )


def number(ms):
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.2g}"


def draw_panel(drawing, left, title, loads, to_y, top_ms):
    right = left + STEP * len(loads)
    drawing.text((left + right) / 2, TOP - 12, title, size=14)
    for power in range(round(math.log10(LEAST_MS)), round(math.log10(top_ms)) + 1):
        y = to_y(10.0**power)
        drawing.line([(left, y), (right, y)], "#ddd")
    xs = [left + STEP * (i + 0.5) for i in range(len(loads))]
    for x, (label, _) in zip(xs, loads):
        for i, part in enumerate(label.split(", ")):
            drawing.text(x, TOP + HEIGHT + 20 + 15 * i, part)
    rates = [x for x, (label, _) in zip(xs, loads) if "," not in label]  # the others are no step of the same axis
    for percentile, _, colour in PERCENTILES:
        points = [(x, to_y(values[percentile])) for x, (_, values) in zip(xs, loads)]
        drawing.line([point for point in points if point[0] in rates], colour, 2)
        right_by, down_by, anchor = NUMBER_AT[percentile]
        for (x, y), (_, values) in zip(points, loads):
            drawing.dot(x, y, colour)
            drawing.text(x + right_by, y + down_by, number(values[percentile]), anchor, 10, colour)
    return right


def draw(about, panels):
    worst = max(v for _, loads in panels for _, values in loads for v in values.values())
    top_ms = 10.0 ** math.ceil(math.log10(worst) + 0.01)
    decades = math.log10(top_ms / LEAST_MS)
    drawing = Drawing()

    def to_y(ms):
        return TOP + HEIGHT * (1 - math.log10(ms / LEAST_MS) / decades)

    for power in range(round(math.log10(LEAST_MS)), round(math.log10(top_ms)) + 1):
        drawing.text(LEFT - 8, to_y(10.0**power) + 4, f"{10.0**power:g} ms", "end")
    left = LEFT
    for title, loads in panels:
        left = draw_panel(drawing, left, title, loads, to_y, top_ms) + GAP
    width = max(left, 560)
    drawing.text(LEFT, 22, "Lateness at the receiver, by load (log scale, lower is better)", "start", 15)
    for i, (_, label, colour) in enumerate(PERCENTILES):
        drawing.dot(width - 170 + 56 * i, 18, colour)
        drawing.text(width - 162 + 56 * i, 22, label, "start")
    drawing.text(LEFT, TOP + HEIGHT + BOTTOM, f"{about['cores']} cores, {about['machine']}", "start", 10, "#666")
    return drawing.svg(width, TOP + HEIGHT + BOTTOM + 16)


def main():
    about, panels = read_panels(sys.argv[1])
    if not panels:
        return
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(about, panels))
    print(f"written: {sys.argv[2]}")


main()
