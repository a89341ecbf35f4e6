"""A run as a picture: faults, leaders, throughput and latency on one axis of time.

One HTML file with one SVG in it, and nothing from elsewhere: no library, no font, no script. It
is light or dark as the reader's system is.

What lives here: that page, made of a history. What must never live here: a judgement. Called by:
`chaos.results`. Deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from math import ceil, log10

from chaos.history import Event, calls

_LEFT, _WIDTH = 110, 1000
_ROW = 18
_PLOT = 130
_GAP = 34
_MARGIN = 20  # right of all
_LETTER = 6.5  # how wide one is, about
_DOTS_MAX = 4000
_BINS_MAX = 240
_BIN_S = 0.5
_DECADES = (-3, -2, -1, 0, 1, 2)  # of seconds: from 1 ms to 100 s
_KINDS = ("ok", "fail", "info")

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #6a737d; --line: #d8dee4;
  --ground: #ffffff; --ok: #1a7f64; --fail: #c9510c; --info: #8250df;
  --fault: #cf222e22; --edge: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #8b949e; --line: #30363d;
  --ground: #0d1117; --ok: #3fb993; --fail: #f0883e; --info: #b78bff;
  --fault: #ff7b7226; --edge: #ff7b72; } }
body { background: var(--ground); color: var(--ink); font: 14px/1.5 system-ui, sans-serif;
  margin: 2em auto; max-width: 1180px; padding: 0 1em; }
h1 { font-size: 1.3em; } p { color: var(--dim); max-width: 60em; }
svg { width: 100%; height: auto; } text { fill: var(--ink); font: 11px system-ui, sans-serif; }
.dim { fill: var(--dim); } .line { stroke: var(--line); stroke-width: 1; }
.fault { fill: var(--fault); stroke: var(--edge); stroke-width: .5; }
.name { fill: var(--edge); opacity: .7; } .on { fill: #ffffff; }
.ok { fill: var(--ok); } .fail { fill: var(--fail); } .info { fill: var(--info); }
.phase { stroke: var(--dim); stroke-dasharray: 3 3; }
.n0 { fill: #0969da; } .n1 { fill: #bf8700; } .n2 { fill: #8250df; }
.n3 { fill: #1a7f64; } .n4 { fill: #cf222e; }
"""

_EXPLAINED = (
    "Time runs to the right. Red bands are faults, from their beginning to their heal; dashed "
    "lines are where phases begin. Below: who said that it leads, and its term; calls that "
    "ended in each half second, by what came of them (green: ok; orange: a definite failure; "
    "violet: nobody knows); and how long each of them took, on a logarithmic scale. Point at "
    "something to read what it is."
)


def page(events: Sequence[Event], title: str, findings: int) -> str:
    """Return the page."""
    picture = _Picture(events)
    verdict = f"{findings} broken promises" if findings else "no promise was broken"
    body = "\n".join(picture.parts())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>"
        f"<h1>{escape(title)}: {verdict}</h1>\n"
        f"<p>{_EXPLAINED}</p>\n"
        f'<svg viewBox="0 0 {_LEFT + _WIDTH + _MARGIN} {picture.height}" role="img" '
        f'aria-label="timeline of {escape(title)}">\n{body}\n</svg></body></html>\n'
    )


class _Picture:
    """The parts of the picture, from the top down.

    Attributes:
        height: of all.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._begin = events[0].ns if events else 0
        self._end = max((events[-1].ns if events else 1), self._begin + 1)
        self._faults = list(self._faulted())
        self._names = list(dict.fromkeys(name for name, _, _ in self._faults))
        looks = [each for each in events if each.op == "look"]
        self._nodes = sorted({node for each in looks for node in each.value["nodes"]})
        self._top_leaders = _GAP + _ROW * len(self._names) + _GAP
        self._top_rate = self._top_leaders + _ROW * len(self._nodes) + _GAP
        self._top_latency = self._top_rate + _PLOT + _GAP
        self._bottom = self._top_latency + _PLOT
        self.height = self._bottom + _GAP

    def parts(self) -> Iterator[str]:
        """Yield elements."""
        yield from self._bands()
        yield from self._axis()
        yield from self._leaders()
        yield from self._rates()
        yield from self._latencies()

    def _x(self, ns: int) -> float:
        return round(_LEFT + _WIDTH * (ns - self._begin) / (self._end - self._begin), 1)

    def _faulted(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, begin and end of each fault."""
        open_at: dict[int, Event] = {}
        for event in self._events:
            if event.op == "fault" and "place" in event.value:
                open_at[event.value["place"]] = event
            elif event.op == "heal":
                began = open_at.pop(event.value["place"], None)
                if began is not None:
                    yield str(began.value["name"]), began.ns, event.ns
        for began in open_at.values():
            yield str(began.value["name"]), began.ns, self._end

    def _bands(self) -> Iterator[str]:
        yield _text(0, _GAP - 10, "faults", "dim")
        for place, name in enumerate(self._names):
            yield _text(0, _GAP + _ROW * place + 13, name)
        for name, begin, end in self._faults:
            x, width = self._x(begin), max(1.0, self._x(end) - self._x(begin))
            y = _GAP + _ROW * self._names.index(name)
            label = escape(f"{name}: {(end - begin) / 1e9:.1f} s")
            for kind, height in (("fault", self._bottom - y), ("name", _ROW - 4)):
                yield (
                    f'<rect class="{kind}" x="{x}" y="{y + 2}" width="{width:.1f}" '
                    f'height="{height - 2}"><title>{label}</title></rect>'
                )

    def _axis(self) -> Iterator[str]:
        seconds = (self._end - self._begin) / 1e9
        step = next(
            each for each in (1, 2, 5, 10, 30, 60, 300, 1800, 1 << 40) if seconds / each <= 14
        )
        for at_s in range(0, ceil(seconds), step):
            x = self._x(self._begin + at_s * 10**9)
            yield f'<line class="line" x1="{x}" x2="{x}" y1="{_GAP}" y2="{self._bottom}"/>'
            yield _text(x, self._bottom + 16, f"{at_s} s", "dim", "middle")
        yield from self._phases()

    def _phases(self) -> Iterator[str]:
        """Yield a line where each phase begins; its name where no other one stands."""
        ends = [0.0, 0.0]  # of the names so far, in each of two rows
        for event in self._events:
            if event.op != "phase":
                continue
            x, name = self._x(event.ns), str(event.value["name"])
            yield f'<line class="phase" x1="{x}" x2="{x}" y1="24" y2="{self._bottom}"/>'
            width = _LETTER * len(name)
            left = min(x + 2, _LEFT + _WIDTH + _MARGIN - width)
            row = 0 if left >= ends[0] else 1
            ends[row] = left + width + _LETTER
            yield _text(round(left, 1), 11 + 12 * row, name, "dim")

    def _leaders(self) -> Iterator[str]:
        top = self._top_leaders
        yield _text(0, top - 10, "leader, by term", "dim")
        for place, node in enumerate(self._nodes):
            yield _text(0, top + _ROW * place + 13, node)
        for place, node in enumerate(self._nodes):
            for term, begin, end in self._led(node):
                x = self._x(begin)
                width, y = max(1.0, self._x(end) - x), top + _ROW * place
                yield (
                    f'<rect class="n{place % 5}" x="{x}" y="{y + 2}" '
                    f'width="{width:.1f}" height="{_ROW - 4}">'
                    f"<title>{node}, term {term}</title></rect>"
                )
                if width > _LETTER * (len(str(term)) + 1):
                    yield _text(x + 4, y + 13, str(term), "on")

    def _led(self, node: str) -> Iterator[tuple[int, int, int]]:
        """Yield term, begin and end of each time that a node said without a break that it leads."""
        looks = [each for each in self._events if each.op == "look"]
        term = begin = end = 0
        for one, following in pairwise(looks):
            seen = one.value["nodes"].get(node, {})
            leads = int(seen["term"]) if seen.get("role") == "leader" else 0
            if term and leads != term:
                yield term, begin, end
            if leads and leads != term:
                begin = one.ns
            term, end = leads, following.ns
        if term:
            yield term, begin, end

    def _rates(self) -> Iterator[str]:
        top = self._top_rate
        seconds = (self._end - self._begin) / 1e9
        bin_s = max(_BIN_S, seconds / _BINS_MAX)
        counts: Counter[tuple[int, str]] = Counter()
        for event in self._events:
            if event.call and event.kind in _KINDS:
                counts[int((event.ns - self._begin) / 1e9 / bin_s), event.kind] += 1
        bins = int(seconds / bin_s) + 1
        totals = [sum(counts[place, kind] for kind in _KINDS) for place in range(bins)]
        most = max(totals, default=0) or 1
        yield _text(0, top - 10, "calls that ended, a second", "dim")
        yield _text(_LEFT - 6, top + 10, f"{most / bin_s:.0f}", "dim", "end")
        yield _text(_LEFT - 6, top + _PLOT, "0", "dim", "end")
        yield _across(top + _PLOT)
        width = _WIDTH * bin_s / seconds
        for place in range(bins):
            y = float(top + _PLOT)
            for kind in _KINDS:
                if not counts[place, kind]:
                    continue
                height = _PLOT * counts[place, kind] / most
                y -= height
                yield (
                    f'<rect class="{kind}" x="{_LEFT + place * width:.1f}" y="{y:.1f}" '
                    f'width="{max(0.5, width - 0.4):.1f}" height="{height:.1f}">'
                    f"<title>{place * bin_s:.1f} s: {counts[place, kind] / bin_s:.0f} {kind} a "
                    "second</title></rect>"
                )

    def _latencies(self) -> Iterator[str]:
        top = self._top_latency
        yield _text(0, top - 10, "how long they took", "dim")
        for decade in _DECADES:
            y = self._y(10.0**decade)
            label = f"{10**decade} s" if decade >= 0 else f"{10 ** (decade + 3)} ms"
            yield _text(_LEFT - 6, y + 4, label, "dim", "end")
            yield _across(y)
        ended = [each for each in calls(self._events) if each.ended is not None]
        step = max(1, len(ended) // _DOTS_MAX)
        # All that took long are shown, and of the others as many as a browser bears.
        long_ns = 500_000_000
        for place, call in enumerate(ended):
            if call.ended is None or (place % step and call.latency_ns < long_ns):
                continue
            took_s = call.latency_ns / 1e9
            yield (
                f'<circle class="{call.outcome}" cx="{self._x(call.ended.ns)}" '
                f'cy="{self._y(took_s)}" r="1.6"><title>{call.began.op} {escape(call.began.id)}: '
                f"{took_s:.3f} s, {call.outcome}</title></circle>"
            )

    def _y(self, took_s: float) -> float:
        low, high = _DECADES[0], _DECADES[-1]
        place = (log10(max(took_s, 10.0**low)) - low) / (high - low)
        return round(self._top_latency + _PLOT * (1 - min(place, 1.0)), 1)


def _text(x: float, y: float, said: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x}" y="{y}" text-anchor="{anchor}">{escape(said)}</text>'


def _across(y: float) -> str:
    return f'<line class="line" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y}" y2="{y}"/>'
