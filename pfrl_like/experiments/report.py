"""The report of a finished run: `report.html` and `learning_curve.svg`. Each can be opened without the other."""

import html
import math
import os

import numpy as np

from pfrl_like.runs.run_files import METRICS, PARTS_LEFT_OUT, SCORES, Curve, column_of, record_of
from pfrl_like.storage import atomic_write

STYLE = (
    "body{font-family:sans-serif;max-width:50em;margin:2em auto}"
    "th{text-align:left;padding-right:1em;vertical-align:top}td{font-family:monospace}"
)
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 380, 70, 45, 30, 20


def write_report(outdir: str) -> None:
    """Draw the learning curve of a run and write the report.

    Args:
        outdir: Run directory with `metrics.csv`, `run.json` and, if the run was evaluated, `scores.txt`.

    Raises:
        CheckpointError: If the report cannot be written.
    """
    episodes = column_of(outdir, METRICS, "return")
    scores = column_of(outdir, SCORES, "mean")
    svg = learning_curve(episodes, scores)
    atomic_write(os.path.join(outdir, "learning_curve.svg"), svg.encode(), durable=False)
    page = _page(svg, record_of(outdir), scores).encode(errors="replace")
    atomic_write(os.path.join(outdir, "report.html"), page, durable=False)


def learning_curve(episodes: Curve, scores: Curve) -> str:
    """Return an SVG plot of the training returns, their running mean, and the evaluation scores over the steps.

    Args:
        episodes: Steps at which training episodes ended, and their returns.
        scores: Steps of the evaluations, and their mean returns.
    """
    steps = np.array([*episodes[0], *scores[0]] or [0.0, 1.0])
    values = np.array([*episodes[1], *scores[1]] or [0.0, 1.0])
    values = values[np.isfinite(values)]
    low, high = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
    if low > high:
        low, high = 0.0, 1.0
    if low == high:
        low, high = low - 0.5, high + 0.5
    last = max(float(steps.max()), 1.0)

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / (high - low)

    def line(curve: Curve, colour: str) -> str:
        stride = max(len(curve[0]) // 2000, 1)
        points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(curve[0][::stride], curve[1][::stride], strict=True))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'

    thinned = [array[:: max(len(array) // 2000, 1)] for array in map(np.asarray, episodes)]
    dots = "".join(f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="1.2"/>' for a, b in zip(*thinned, strict=True))
    marks = "".join(f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3"/>' for a, b in zip(*scores, strict=True))
    ticks = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/>'
        f'<text x="{LEFT - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v:,.10g}</text>'
        for v in round_numbers(low, high)
    ) + "".join(
        f'<text x="{x(s):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{s:,.10g}</text>'
        for s in round_numbers(0.0, last)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>{ticks}'
        f'<g fill="#9bbce0">{dots}</g>{line(_running_mean(episodes), "#3572b0")}'
        f'{line(scores, "#c03a2b")}<g fill="#c03a2b">{marks}</g>'
        f'<text x="{LEFT}" y="18" fill="#3572b0">training return (mean of 20 episodes)</text>'
        f'<text x="{WIDTH - RIGHT}" y="18" text-anchor="end" fill="#c03a2b">evaluation, mean return</text>'
        f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 8}" text-anchor="middle">environment steps</text></svg>\n'
    )


def round_numbers(low: float, high: float) -> list[float]:
    """Return four to nine numbers between `low` and `high`. They are the multiples of a step size.

    The step size is 1, 2, 2.5 or 5 times a power of ten.
    """
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = max(size * power for size in (1.0, 2.0, 2.5, 5.0) if size * power * 4 <= (high - low) * (1 + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _running_mean(curve: Curve, window: int = 20) -> Curve:
    values = np.asarray(curve[1], dtype=float)
    if len(values) < window:
        return curve[0], values.tolist()
    return curve[0][window - 1 :], np.convolve(values, np.ones(window) / window, "valid").tolist()


def _page(svg: str, record: dict[str, object], scores: Curve) -> str:
    cells = [(html.escape(str(key)), html.escape(_text(value))) for key, value in record.items() if value != []]
    facts = "".join(f"<tr><th>{key}</th><td>{value}</td></tr>" for key, value in cells)
    rows = "".join(f"<tr><td>{step:,.0f}</td><td>{score:.2f}</td></tr>" for step, score in zip(*scores, strict=True))
    table = f"<h2>Evaluations</h2><table><tr><th>steps</th><th>mean return</th></tr>{rows}</table>" if rows else ""
    title = html.escape(f"{record.get('agent')} in {record.get('env')}")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
        f"<h1>{title}</h1>{svg}{table}<h2>Run</h2><table>{facts}</table></html>\n"
    )


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    if isinstance(value, list):
        are_records = all(isinstance(item, dict) for item in value)
        return "; ".join(map(_part, value)) if are_records else " ".join(map(str, value))
    return str(value)


def _part(record: dict[str, object]) -> str:
    """Return a short text about an earlier part of a run (from one start or resume to the next)."""
    gap = f"{record[PARTS_LEFT_OUT]} earlier parts omitted; " if PARTS_LEFT_OUT in record else ""
    steps = f"from step {record.get('step_offset', 0)}" + (f" to {record['t']}" if "t" in record else "")
    return f"{gap}{steps}, started {record.get('start')}: {record.get('outcome')}"
