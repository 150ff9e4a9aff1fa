// A trace as a timeline that is a flame graph upside down: calls below their callers. The server cuts out what is in view.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Cut, type Found, type InWindow, type Linked, type NameSums, type Outline, type Span, type Values, addressOf, ask, useAnswer } from "./api";
import { Details } from "./details";
import { Answer, Message } from "./parts";
import {
  type Colours, type Range, type View, AXIS, HEAD, ROW, clamp, draw, drawLinks, drawOverview, layOut, panned, rowAt, rowsInView, zoomed,
} from "./timeline_view";
import { countText, counted, timeText } from "./units";

const HIGHEST = 460; // pixels
const MARGIN = 0.5; // of the view, on both sides: panning does not wait
const SOON = 80; // milliseconds
const STILL = 3; // pixels: a pointer that moved less was a click

export interface TimelineProps {
  values: Values; dark: boolean; search: string; onSearch: (text: string) => void; window?: string; onWindow: (window: string) => void;
  range?: string; onRange: (range: string) => void; span?: string; again: unknown; title: string;
}

export function Timeline(props: TimelineProps) {
  const outline = useAnswer<Outline>("trace", props.values, props.again);
  return <section class="trace" aria-label={`Trace of ${props.title}`}>
    <Answer asked={outline} waiting="Reading the trace… a large one takes a few seconds the first time.">
      {(found) => found.spans === 0 ? <Message>The trace has no spans to draw.</Message> : <Drawing {...props} outline={found} key={found.stamp} />}
    </Answer>
  </section>;
}

/** As it stands in the address. */
const rangeText = ([begin, end]: Range) => `${begin.toFixed(2)}-${end.toFixed(2)}`;

function rangeOf(text: string | undefined, length: number): Range | null {
  const [begin, end] = (text ?? "").split("-").map(Number);
  return isFinite(begin) && isFinite(end) && end > begin && begin < length ? [begin, Math.min(end, length)] : null;
}

function viewOf(window: string | undefined, length: number): View {
  const [begin, end] = rangeOf(window, length) ?? [0, length];
  return clamp({ begin, end, top: 0 }, length);
}

function coloursOf(dark: boolean): Colours {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return { ink: colour("--ink"), paper: colour("--paper"), line: colour("--line"), accent: colour("--accent"), dark };
}

function Drawing(props: TimelineProps & { outline: Outline }) {
  const { outline, values } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const { strips, height } = useMemo(() => layOut(outline), [outline]);
  const shownHeight = Math.min(height, HIGHEST);
  const [view, setView] = useState<View>(() => viewOf(props.window, outline.length));
  const [cut, setCut] = useState<Cut | null>(null);
  const [selected, setSelected] = useState<Span | null>(null);
  const [found, setFound] = useState<Found | null>(null);
  const [error, setError] = useState("");
  const [width, setWidth] = useState(0);
  const [measuring, setMeasuring] = useState(false);
  const [range, setRange] = useState<Range | null>(() => rangeOf(props.range, outline.length));
  const pointer = useRef<number | null>(null); // where on the canvas, in pixels
  const dragged = useRef(false);
  const clampView = (next: View): View => ({ ...clamp(next, outline.length), top: Math.min(Math.max(0, next.top), height - shownHeight) });
  const change = (next: View) => setView(clampView(next));

  useEffect(() => {
    const follow = new ResizeObserver(() => setWidth(canvas.current?.clientWidth ?? 0));
    follow.observe(canvas.current!);
    return () => follow.disconnect();
  }, []);

  // What is in view is asked for when it has rested for a moment; until it is there the last answer is drawn.
  useEffect(() => {
    if (!width) return;
    const stop = new AbortController();
    const later = setTimeout(() => {
      const span = view.end - view.begin;
      const [first, last] = rowsInView(strips, view.top, shownHeight);
      const begin = Math.max(0, view.begin - MARGIN * span);
      const end = Math.min(outline.length, view.end + MARGIN * span);
      const wanted = { ...values, begin, end, first, last, width: Math.round((width * (end - begin)) / span), search: props.search };
      ask<Cut>("trace/cut", wanted, stop.signal).then(
        (made) => {
          setCut(made);
          setError(made.stamp === outline.stamp ? "" : "The trace was written again; reload to see the new one.");
        },
        (reason: Error) => reason.name !== "AbortError" && setError(reason.message),
      );
      const whole = view.begin <= 0 && view.end >= outline.length;
      props.onWindow(whole ? "" : rangeText([view.begin, view.end]));
    }, SOON);
    return () => {
      clearTimeout(later);
      stop.abort();
    };
  }, [view, width, props.search, outline]);

  useEffect(() => {
    const made = draw(canvas.current!, outline, strips, view, cut, coloursOf(props.dark), props.search.trim() !== "", selected, range);
    if (selected?.linked.length) drawLinks(canvas.current!, strips, view, selected, coloursOf(props.dark));
    Object.assign(canvas.current!.dataset, {
      begin: view.begin, end: view.end, spans: made.spans, joined: made.joined, of: outline.spans, links: selected?.linked.length ?? 0,
    });
  }, [view, cut, width, props.dark, props.search, selected, range]);

  function measure(next: Range | null): void {
    setRange(next);
    props.onRange(next ? rangeText(next) : "");
  }

  useEffect(() => {
    if (props.search.trim()) step(null, false);
    else setFound(null);
  }, [props.search]);

  async function step(after: number | null, backwards: boolean): Promise<void> {
    try {
      const answer = await ask<Found>("trace/find", { ...values, search: props.search, after, backwards: backwards ? 1 : 0 });
      setFound(answer);
      if (answer.hit && after !== null) reveal(answer.hit);
    } catch (reason) {
      setError((reason as Error).message);
    }
  }

  const spanAt = (row: number, time: number) => ask<Span | null>("trace/at", { ...values, row, time }).catch(() => null);

  // Somebody was sent here to look at one span.
  useEffect(() => {
    const [row, time] = (props.span ?? "").split(":").map(Number);
    if (props.span && isFinite(row) && isFinite(time)) spanAt(row, time).then((span) => span && reveal(span));
  }, [props.span]);

  async function go(linked: Linked): Promise<void> {
    const span = await spanAt(linked.row, linked.start);
    if (span) reveal(span);
  }

  function reveal(span: Span): void {
    setSelected(span);
    setView((now) => {
      const tooSmall = span.duration < (now.end - now.begin) / 50;
      const inView = span.start >= now.begin && span.start + span.duration <= now.end;
      const strip = strips.find((one) => span.row >= one.row && span.row < one.row + one.rows)!;
      const y = strip.y + HEAD + (span.row - strip.row) * ROW;
      const top = y - now.top > AXIS && y - now.top < shownHeight - ROW ? now.top : y - shownHeight / 2;
      const around = Math.max(span.duration, 0.1) * 10;
      const [begin, end] = inView && !tooSmall ? [now.begin, now.end] : [span.start - around / 2, span.start + span.duration + around / 2];
      return clampView({ begin, end, top });
    });
  }

  const timeAt = (x: number) => view.begin + (x / canvas.current!.clientWidth) * (view.end - view.begin);

  async function select(event: MouseEvent): Promise<Span | null> {
    if (dragged.current) return null;
    const row = rowAt(strips, event.offsetY + view.top);
    if (row === null) return null;
    const span = await spanAt(row, timeAt(event.offsetX));
    setSelected(span);
    return span;
  }

  function drag(event: PointerEvent): void {
    const target = canvas.current!;
    const [x, y, from, begin] = [event.clientX, event.clientY, view, timeAt(event.offsetX)];
    const measures = measuring || event.shiftKey;
    dragged.current = false;
    follow(target, event, (now) => {
      dragged.current ||= Math.hypot(now.clientX - x, now.clientY - y) > STILL;
      if (!dragged.current) return;
      const by = ((x - now.clientX) / target.clientWidth) * (from.end - from.begin);
      if (measures) setRange(between(begin, begin - by, outline.length));
      else change({ begin: from.begin + by, end: from.end + by, top: from.top + (y - now.clientY) });
    }, (last) => {
      if (measures && dragged.current) measure(between(begin, begin - ((x - last.clientX) / target.clientWidth) * (from.end - from.begin), outline.length));
    });
  }

  // Not through the component's property: a listener there may be passive, and the page would scroll as well.
  useEffect(() => {
    const target = canvas.current!;
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== target) return;
      event.preventDefault();
      const around = timeAt(event.offsetX);
      change(event.shiftKey ? panned(view, Math.sign(event.deltaY || event.deltaX) * 0.1, outline.length)
        : zoomed(view, event.deltaY > 0 ? 1.25 : 0.8, around, outline.length));
    };
    target.addEventListener("wheel", wheel, { passive: false });
    return () => target.removeEventListener("wheel", wheel);
  });

  const middle = (view.begin + view.end) / 2;
  const zoom = (factor: number, around = middle) => change(zoomed(view, factor, around, outline.length));
  const atPointer = () => (pointer.current === null ? middle : timeAt(pointer.current));
  const fill = () => selected && change({ ...view, begin: selected.start, end: selected.start + Math.max(selected.duration, 0.1) });
  const moves: Record<string, () => void> = {
    "+": () => zoom(0.5),
    "-": () => zoom(2),
    w: () => zoom(0.7, atPointer()),
    s: () => zoom(1 / 0.7, atPointer()),
    ArrowLeft: () => change(panned(view, -0.2, outline.length)),
    ArrowRight: () => change(panned(view, 0.2, outline.length)),
    ArrowUp: () => change({ ...view, top: view.top - 3 * ROW }),
    ArrowDown: () => change({ ...view, top: view.top + 3 * ROW }),
    "0": () => change({ begin: 0, end: outline.length, top: 0 }),
    f: () => fill(),
    m: () => selected && measure([selected.start, selected.start + selected.duration]),
    Escape: () => measure(null),
    n: () => step(selected?.start ?? view.begin, false),
    p: () => step(selected?.start ?? view.end, true),
  };
  Object.assign(moves, { "=": moves["+"], a: moves.ArrowLeft, d: moves.ArrowRight, Home: moves["0"], Enter: moves.f });

  // Letters also without focus while the pointer is over the timeline, as in other viewers; what scrolls a page, not.
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const letter = event.key.length === 1;
      const key = letter ? event.key.toLowerCase() : event.key;
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || !moves[key] || target.closest("input, select, textarea")) return;
      if (target !== canvas.current && !(letter && pointer.current !== null)) return;
      event.preventDefault();
      moves[key]();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });

  return <>
    <div class="bar">
      <label>Search <input type="search" value={props.search} placeholder="aten::conv, encoder, *gelu*" data-search
        onInput={(event) => props.onSearch(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Enter" && step(selected?.start ?? view.begin, event.shiftKey)} /></label>
      <button type="button" onClick={() => step(selected?.start ?? view.begin, true)} disabled={!found?.count}>Previous</button>
      <button type="button" onClick={() => step(selected?.start ?? view.begin, false)} disabled={!found?.count}>Next</button>
      <span role="status" class="hits" data-hits={found?.count}>{found && (found.count ? `${countText(found.count)} found, ${selfTimes(found.names)}` : "nothing found")}</span>
      <span class="gap" />
      <button type="button" aria-pressed={measuring} data-measure title="Drag over the timeline to measure; also Shift and drag"
        onClick={() => setMeasuring(!measuring)}>Measure</button>
      <button type="button" onClick={moves["+"]} aria-label="Zoom in">+</button>
      <button type="button" onClick={moves["-"]} aria-label="Zoom out">−</button>
      <button type="button" onClick={moves["0"]} data-whole>Whole trace</button>
      <a href={addressOf("download", values)} download>Download</a>
    </div>
    {error && <Message kind="error">{error}</Message>}
    <Overview values={values} outline={outline} view={view} range={range} dark={props.dark} width={width} change={change} />
    <canvas ref={canvas} class={`timeline${measuring ? " measuring" : ""}`} tabIndex={0} style={`height: ${shownHeight}px`} role="application" aria-label={
      `Timeline of ${counted(outline.spans, "span")}. W and S or plus and minus zoom, A and D or arrow keys move, 0 shows all, n and p go to the next and `
      + "previous match of the search, m measures the chosen span. The table below says in words what is in view."}
      onPointerDown={drag} onClick={select}
      onPointerMove={(event) => { pointer.current = event.offsetX; }} onPointerLeave={() => { pointer.current = null; }}
      onDblClick={async (event) => {
        const span = await select(event);
        if (span) change({ ...view, begin: span.start, end: span.start + Math.max(span.duration, 0.1) });
      }} />
    {range && <p class="measured" role="status" data-range={range[1] - range[0]}><strong>{timeText(range[1] - range[0])}</strong> measured, from {timeText(range[0])} to {timeText(range[1])}{" "}
      <button type="button" onClick={() => change({ ...view, begin: range[0], end: range[1] })}>Zoom to it</button>{" "}
      <button type="button" onClick={() => measure(null)}>Clear</button></p>}
    <details class="keys"><summary>Keys and mouse</summary><dl>
      <dt>W S, + −, wheel</dt><dd>zoom; the wheel after a click on the timeline, or with Ctrl</dd>
      <dt>A D, arrows, drag</dt><dd>move; in the strip above: drag to choose what is in view</dd>
      <dt>click, double click</dt><dd>details of a span; fill the view with it (also F)</dd>
      <dt>Shift and drag, M</dt><dd>measure a range; measure the chosen span. Esc clears</dd>
      <dt>N P, 0</dt><dd>next and previous match of the search; the whole trace</dd></dl></details>
    <p class="hint">Times are under the profiler, which slows down what it watches.</p>
    {selected && <Details span={selected} go={go} />}
    <InView values={values} begin={range?.[0] ?? view.begin} end={range?.[1] ?? view.end} measured={range !== null} />
  </>;
}

/** Follows a pointer from where it was pressed until it is let go, also outside of the element. */
function follow(target: HTMLElement, event: PointerEvent, move: (now: PointerEvent) => void, done: (now: PointerEvent) => void = () => {}): void {
  target.setPointerCapture(event.pointerId);
  const stop = new AbortController();
  target.addEventListener("pointermove", move, { signal: stop.signal });
  for (const end of ["pointerup", "pointercancel"] as const) {
    target.addEventListener(end, (now) => {
      stop.abort();
      done(now);
    }, { signal: stop.signal });
  }
}

/** Of CPUs and of devices, which are not added. */
function selfTimes(names: NameSums[]): string {
  const sum = (device: boolean) => names.filter((one) => one.device === device).reduce((all, one) => all + one.own, 0);
  const parts = [[false, "self time"], [true, "on the device"]] as const;
  return parts.filter(([device]) => names.some((one) => one.device === device)).map(([device, word]) => `${timeText(sum(device))} ${word}`).join(", ");
}

const between = (one: number, other: number, length: number): Range => [Math.max(0, Math.min(one, other)), Math.min(length, Math.max(one, other))];

interface OverviewProps { values: Values; outline: Outline; view: View; range: Range | null; dark: boolean; width: number; change: (view: View) => void }

/** The whole trace as a strip: what is in view is lit, and can be moved or chosen anew. */
function Overview(props: OverviewProps) {
  const { outline, view } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const rows = outline.tracks.reduce((sum, track) => sum + track.rows, 0);
  const whole = useAnswer<Cut>("trace/cut", { ...props.values, begin: 0, end: outline.length, first: 0, last: rows, width: 600 });
  useEffect(() => drawOverview(canvas.current!, outline, whole.value ?? null, view, props.range, coloursOf(props.dark)),
    [outline, whole.value, view, props.range, props.dark, props.width]);
  function drag(event: PointerEvent): void {
    const target = canvas.current!;
    const timeOf = (x: number) => (x / target.clientWidth) * outline.length;
    const [from, x, begin] = [view, event.clientX, timeOf(event.offsetX)];
    const all = view.end - view.begin >= outline.length;
    const inside = !all && begin >= view.begin && begin <= view.end;
    if (!inside && !all) {
      const half = (view.end - view.begin) / 2;
      props.change({ ...view, begin: begin - half, end: begin + half });
    }
    follow(target, event, (now) => {
      const by = timeOf(now.clientX - x);
      if (Math.abs(now.clientX - x) <= STILL) return;
      if (inside) props.change({ ...from, begin: from.begin + by, end: from.end + by });
      else {
        const [first, last] = between(begin, begin + by, outline.length);
        props.change({ ...from, begin: first, end: last });
      }
    });
  }
  return <canvas ref={canvas} class="overview" role="img" aria-label="The whole trace; what is in view is lit" onPointerDown={drag} />;
}

/** The same in words: what takes the time of the part in view, or of what was measured. */
function InView(props: { values: Values; begin: number; end: number; measured: boolean }) {
  const [window, setWindow] = useState<Range>([props.begin, props.end]);
  useEffect(() => {
    const later = setTimeout(() => setWindow([props.begin, props.end]), 5 * SOON);
    return () => clearTimeout(later);
  }, [props.begin, props.end]);
  const asked = useAnswer<InWindow>("trace/window", { ...props.values, begin: window[0], end: window[1] });
  return <details open>
    <summary>What takes the time {props.measured ? "in the measured range" : "in view"} ({timeText(window[1] - window[0])})</summary>
    <Answer asked={asked}>{(found) => <div class="scroll"><table class="plain names" data-in-view>
      <thead><tr><th scope="col">name</th>{found.names.some((row) => row.device) && <th scope="col">on</th>}<th scope="col">self</th><th scope="col">total</th><th scope="col">calls</th></tr></thead>
      <tbody>{found.names.slice(0, 15).map((row) => <tr>
        <th scope="row" title={row.name}>{row.short}</th>{found.names.some((one) => one.device) && <td>{row.device ? "device" : "CPU"}</td>}<td>{timeText(row.own)}</td><td>{timeText(row.total)}</td><td>{countText(row.calls)}</td>
      </tr>)}</tbody>
    </table>
      <p class="hint">{found.names.length ? `${counted(found.spans, "span")}, most self time first. Of spans that reach beyond, the part that is inside.` : "There is no span."}</p></div>}</Answer>
  </details>;
}
