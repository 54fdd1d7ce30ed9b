"""A program that draws the picture of an evaluation. No other module imports matplotlib.

The arguments are the JSON file of the figure and the PNG file to write. The background is opaque, so that the picture
looks the same on light and dark pages.
"""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NO_LIBRARY = 3
"""Exit code if matplotlib is missing."""
WIDTH, HEIGHT, DPI = 1000, 420, 100
"""Size of the picture in pixels, and pixels per inch."""
_COLORS = 200
"""Number of colours in the palette of the PNG file."""
_PAPER, _INK, _FAINT = "#fbfbfa", "#1f2328", "#6e7781"
_BAR, _OUTSIDE, _FAILED, _MEAN = "#3b76af", "#b07aa1", "#8b8f94", "#c2410c"
_GOOD, _BAD = "#1a7f37", "#c02626"
_POOLS = {"never": "#f6d5d5", "hard": "#fbe7cf", "normal": "#dcefdc", "easy": "#d9e8f6", "always": "#dcdcf3"}
_LABELLED = 6
"""A histogram with at most this many bars shows the count above each bar."""


def main(argv: list[str]) -> int:
    """Draw the figure described in the file `argv[0]` into the file `argv[1]`; return the exit code."""
    source, target = Path(argv[0]), Path(argv[1])
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        return NO_LIBRARY
    matplotlib.rcdefaults()  # ignores the user's matplotlibrc
    # Without this, text between dollar signs becomes a formula.
    matplotlib.rcParams.update({"text.parse_math": False, "font.size": 9, "text.color": _INK})
    figure = json.loads(source.read_text(encoding="utf-8"))
    page = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor=_PAPER)
    draw(page, figure)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.write_bytes(_png(page))
    temporary.replace(target)
    return 0


def _png(page: Figure) -> bytes:
    """Return the picture as PNG with a palette, which reduces the file to a third of the size."""
    from PIL import Image

    full, small = io.BytesIO(), io.BytesIO()
    page.savefig(full, format="png", dpi=DPI)
    Image.open(full).convert("RGB").quantize(_COLORS).save(small, format="PNG", optimize=True)
    return small.getvalue()


def draw(page: Figure, figure: dict[str, Any]) -> None:
    """Draw the histogram of rewards on the left, the task means on the right, and the five checks below them."""
    left, right = page.subplots(1, 2)
    page.subplots_adjust(left=0.06, right=0.985, top=0.83, bottom=0.245, wspace=0.16)
    heading = f"REHEARSAL   {figure['title']}" if figure["rehearsal"] else figure["title"]
    page.text(0.06, 0.94, heading, fontsize=10.5, weight="bold", color=_BAD if figure["rehearsal"] else _INK)
    for axes in (left, right):
        axes.set_facecolor(_PAPER)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=_INK, labelsize=8)
    _histogram(left, figure)
    _difficulty(right, figure)
    _checks(page, figure["checks"])


def _histogram(axes: Axes, figure: dict[str, Any]) -> None:
    histogram = figure["histogram"]
    bars = [(b["at"], b["count"], _BAR) for b in histogram["bars"]]
    labels = {0.0: "0", 0.25: "0.25", 0.5: "0.5", 0.75: "0.75", 1.0: "1"}
    outside = (("below", -0.12, "< 0", _OUTSIDE), ("above", 1.12, "> 1", _OUTSIDE), ("failed", 1.27, "failed", _FAILED))
    for name, place, label, color in outside:
        if histogram[name]:
            bars.append((place, histogram[name], color))
            labels[place] = label
    for place, number, color in bars:
        axes.bar(
            place,
            number,
            width=histogram["step"] * 0.9,
            color=color,
            hatch="////" if color == _FAILED else None,
            edgecolor=_PAPER,
            linewidth=0.4,
            zorder=2,
        )
    if len(bars) <= _LABELLED:
        for place, number, _ in bars:
            axes.text(place, number, f"{number:,}", ha="center", va="bottom", fontsize=8)
    low, high = figure["interval"]
    axes.axvspan(low, high, color=_MEAN, alpha=0.18, linewidth=0, zorder=1)
    axes.axvline(figure["mean"], color=_MEAN, linewidth=1.6, zorder=3)
    for limit in figure["limits"]:
        axes.axvline(limit, color=_FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    tallest = max((number for _, number, _ in bars), default=1)
    axes.set_ylim(0, tallest * 1.16)
    axes.set_xlim(-0.19 if histogram["below"] else -0.06, max(place for place in labels) + 0.08)
    axes.set_xticks(list(labels), list(labels.values()))
    axes.set_xlabel("reward / attainable (dashed: the mean has to lie between)", fontsize=8.5)
    axes.set_ylabel("rollouts", fontsize=8.5)
    axes.set_title(
        f"mean {figure['mean']:.3f}   95 % interval {low:.3f} to {high:.3f}", fontsize=9, loc="left", color=_MEAN
    )


def _difficulty(axes: Axes, figure: dict[str, Any]) -> None:
    total = sum(pool["tasks"] for pool in figure["pools"]) or 1
    for pool in figure["pools"]:
        if pool["tasks"]:
            color = _POOLS.get(pool["name"], _PAPER)
            axes.axvspan(pool["left"], pool["left"] + pool["tasks"], color=color, linewidth=0, zorder=0)
    tasks = figure["tasks"]
    places = [t["left"] + t["width"] / 2 for t in tasks]
    means = [t["mean"] for t in tasks]
    axes.bar(places, means, width=[t["width"] * 0.85 for t in tasks], color=_BAR, zorder=2)
    if len(tasks) <= 80:
        axes.scatter(places, means, s=9, color=_INK, zorder=3, clip_on=False)
    axes.set_xlim(0, total)
    axes.set_ylim(min(0, *means), max(1.02, *means))
    axes.set_xlabel("tasks, from worst to best" + (", several to a bar" if total > len(tasks) else ""), fontsize=8.5)
    axes.set_ylabel("task mean", fontsize=8.5)
    axes.set_title(figure["signal"], fontsize=9, loc="left")
    _legend(axes, figure["pools"])


def _legend(axes: Axes, pools: list[dict[str, Any]]) -> None:
    from matplotlib.patches import Patch

    keys = [Patch(color=_POOLS.get(p["name"], _PAPER), label=f"{p['name']} {p['tasks']:,}") for p in pools]
    axes.legend(
        handles=keys,
        fontsize=7.5,
        loc="upper left",
        bbox_to_anchor=(-0.02, -0.21),
        ncols=5,
        frameon=False,
        borderpad=0,
        handlelength=1,
        handletextpad=0.4,
        columnspacing=1.1,
    )


def _checks(page: Figure, checks: list[dict[str, Any]]) -> None:
    marks = {True: ("\N{CHECK MARK}", _GOOD), False: ("\N{BALLOT X}", _BAD), None: ("\N{EN DASH}", _FAINT)}
    for i, check in enumerate(checks):
        mark, color = marks[check["passed"]]
        page.text(0.06 + i * 0.93 / max(len(checks), 1), 0.04, f"{mark} {check['text']}", fontsize=8, color=color)
