"""Curves in plain characters, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MARKS = "123456789abcdef"


def draw(series: Mapping[str, Sequence[tuple[float, float]]], width: int = 72, height: int = 16) -> str:
    """One chart of several series of (x, y) points; each is drawn with a character of its own, the first on top.

    Returns lines with the y range at the left, the x range below and a legend. Empty series give an empty string.
    """
    points = [point for line in series.values() for point in line]
    if not points:
        return ""
    low, high = min(y for _, y in points), max(y for _, y in points)
    start, end = min(x for x, _ in points), max(x for x, _ in points)
    grid = [[" "] * width for _ in range(height)]
    for mark, line in reversed(list(zip(MARKS, series.values(), strict=False))):
        for x, y in line:
            column = round((x - start) / ((end - start) or 1) * (width - 1))
            row = round((high - y) / ((high - low) or 1) * (height - 1))
            grid[row][column] = mark
    labels = [f"{high:8.3f}"] + [" " * 8] * (height - 2) + [f"{low:8.3f}"]
    body = [f"{label} |{''.join(row)}".rstrip() for label, row in zip(labels, grid, strict=True)]
    axis = f"{'':8} +{'-' * width}"
    foot = f"{'':10}{start:<{width // 2}g}{end:>{width - width // 2}g}"
    legend = "  ".join(f"{mark} {name}" for mark, name in zip(MARKS, series, strict=False))
    return "\n".join([*body, axis, foot, f"{'':10}{legend}"])
