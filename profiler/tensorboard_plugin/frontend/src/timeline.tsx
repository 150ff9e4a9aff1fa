// A trace as a timeline that is a flame graph upside down: calls below their callers. The server cuts out what is in view.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Cut, type Found, type InWindow, type Outline, type Span, type Values, addressOf, ask, useAnswer } from "./api";
import { Answer, Message } from "./parts";
import { type Colours, type View, AXIS, HEAD, ROW, clamp, draw, layOut, panned, rowAt, rowsInView, zoomed } from "./timeline_view";
import { countText, timeText } from "./units";

const HIGHEST = 460; // pixels
const MARGIN = 0.5; // of the view, on both sides: panning does not wait
const SOON = 80; // milliseconds

export interface TimelineProps {
  values: Values; dark: boolean; search: string; onSearch: (text: string) => void; window?: string; onWindow: (window: string) => void;
  again: unknown; title: string;
}

export function Timeline(props: TimelineProps) {
  const outline = useAnswer<Outline>("trace", props.values, props.again);
  return <section class="trace" aria-label={`Trace of ${props.title}`}>
    <Answer asked={outline} waiting="Reading the trace… a large one takes a few seconds the first time.">
      {(found) => found.spans === 0 ? <Message>The trace has no spans to draw.</Message> : <Drawing {...props} outline={found} key={found.stamp} />}
    </Answer>
  </section>;
}

function viewOf(window: string | undefined, length: number): View {
  const [begin, end] = (window ?? "").split("-").map(Number);
  return clamp(isFinite(begin) && isFinite(end) && end > begin ? { begin, end, top: 0 } : { begin: 0, end: length, top: 0 }, length);
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
      props.onWindow(whole ? "" : `${view.begin.toFixed(2)}-${view.end.toFixed(2)}`);
    }, SOON);
    return () => {
      clearTimeout(later);
      stop.abort();
    };
  }, [view, width, props.search, outline]);

  useEffect(() => {
    const made = draw(canvas.current!, outline, strips, view, cut, coloursOf(props.dark), props.search.trim() !== "", selected);
    Object.assign(canvas.current!.dataset, {
      begin: view.begin, end: view.end, spans: made.spans, joined: made.joined, of: outline.spans,
    });
  }, [view, cut, width, props.dark, props.search, selected]);

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
    const row = rowAt(strips, event.offsetY + view.top);
    if (row === null) return null;
    const span = await ask<Span | null>("trace/at", { ...values, row, time: timeAt(event.offsetX) }).catch(() => null);
    setSelected(span);
    return span;
  }

  function drag(event: PointerEvent): void {
    const target = canvas.current!;
    const [x, y, from] = [event.clientX, event.clientY, view];
    target.setPointerCapture(event.pointerId);
    const move = (now: PointerEvent) => {
      const by = ((x - now.clientX) / target.clientWidth) * (from.end - from.begin);
      change({ begin: from.begin + by, end: from.end + by, top: from.top + (y - now.clientY) });
    };
    target.addEventListener("pointermove", move);
    target.addEventListener("pointerup", () => target.removeEventListener("pointermove", move), { once: true });
  }

  // Not through the component's property: a listener there may be passive, and the page would scroll as well.
  useEffect(() => {
    const target = canvas.current!;
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== target) return;
      event.preventDefault();
      const around = view.begin + (event.offsetX / target.clientWidth) * (view.end - view.begin);
      change(event.shiftKey ? panned(view, Math.sign(event.deltaY || event.deltaX) * 0.1, outline.length)
        : zoomed(view, event.deltaY > 0 ? 1.25 : 0.8, around, outline.length));
    };
    target.addEventListener("wheel", wheel, { passive: false });
    return () => target.removeEventListener("wheel", wheel);
  });

  const middle = (view.begin + view.end) / 2;
  const moves: Record<string, () => void> = {
    "+": () => change(zoomed(view, 0.5, middle, outline.length)),
    "-": () => change(zoomed(view, 2, middle, outline.length)),
    ArrowLeft: () => change(panned(view, -0.2, outline.length)),
    ArrowRight: () => change(panned(view, 0.2, outline.length)),
    ArrowUp: () => change({ ...view, top: view.top - 3 * ROW }),
    ArrowDown: () => change({ ...view, top: view.top + 3 * ROW }),
    "0": () => change({ begin: 0, end: outline.length, top: 0 }),
    Enter: () => selected && change({ ...view, begin: selected.start, end: selected.start + selected.duration }),
    n: () => step(selected?.start ?? view.begin, false),
    p: () => step(selected?.start ?? view.end, true),
  };
  Object.assign(moves, { "=": moves["+"], w: moves["+"], s: moves["-"], a: moves.ArrowLeft, d: moves.ArrowRight, Home: moves["0"] });

  return <>
    <div class="bar">
      <label>Search <input type="search" value={props.search} placeholder="aten::conv, encoder, *gelu*" data-search
        onInput={(event) => props.onSearch(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Enter" && step(selected?.start ?? view.begin, event.shiftKey)} /></label>
      <button type="button" onClick={() => step(selected?.start ?? view.begin, true)} disabled={!found?.count}>Previous</button>
      <button type="button" onClick={() => step(selected?.start ?? view.begin, false)} disabled={!found?.count}>Next</button>
      <span role="status" class="hits" data-hits={found?.count}>{found && (found.count ? `${countText(found.count)} found, ${timeText(found.names.reduce((sum, one) => sum + one.own, 0))} self time` : "nothing found")}</span>
      <span class="gap" />
      <button type="button" onClick={moves["+"]} aria-label="Zoom in">+</button>
      <button type="button" onClick={moves["-"]} aria-label="Zoom out">−</button>
      <button type="button" onClick={moves["0"]}>Whole trace</button>
      <a href={addressOf("download", values)} download>Download</a>
    </div>
    {error && <Message kind="error">{error}</Message>}
    <canvas ref={canvas} tabIndex={0} style={`height: ${shownHeight}px`} role="application" aria-label={
      `Timeline of ${outline.spans} spans. Plus and minus zoom, arrow keys move, 0 shows all, n and p go to the next and previous `
      + "match of the search. The table below says in words what is in view."}
      onKeyDown={(event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || !moves[event.key]) return;
        event.preventDefault();
        moves[event.key]();
      }}
      onPointerDown={drag} onClick={select}
      onDblClick={async (event) => {
        const span = await select(event);
        if (span) change({ ...view, begin: span.start, end: span.start + Math.max(span.duration, 0.1) });
      }} />
    <p class="hint">Drag to move, wheel (after a click, or with Ctrl) to zoom, double click a span to fill the view with it. Keys:
      + − zoom, arrows move, 0 all, n p matches. Times are under the profiler, which slows down what it watches.</p>
    {selected && <Details span={selected} />}
    <InView values={values} view={view} length={outline.length} />
  </>;
}

function Details(props: { span: Span }) {
  const { span } = props;
  return <div role="status"><dl class="details" aria-label="The chosen span">
    <dt>{span.name}</dt>
    <dd>{timeText(span.duration)} (self {timeText(span.own)}), from {timeText(span.start)}; {span.category || "no category"}; {span.track}</dd>
    {span.path.length > 0 && <dd>in {span.path.join(" › ")}</dd>}
    {span.detail && <dd>shapes and types: <code>{span.detail}</code></dd>}
  </dl></div>;
}

/** The same in words: what takes the time of the part in view. */
function InView(props: { values: Values; view: View; length: number }) {
  const [window, setWindow] = useState<[number, number]>([props.view.begin, props.view.end]);
  useEffect(() => {
    const later = setTimeout(() => setWindow([props.view.begin, props.view.end]), 5 * SOON);
    return () => clearTimeout(later);
  }, [props.view.begin, props.view.end]);
  const asked = useAnswer<InWindow>("trace/window", { ...props.values, begin: window[0], end: window[1] });
  return <details open>
    <summary>What takes the time in view ({timeText(window[1] - window[0])})</summary>
    <Answer asked={asked}>{(found) => <table class="plain" data-in-view>
      <thead><tr><th scope="col">name</th><th scope="col">self</th><th scope="col">total</th><th scope="col">calls</th></tr></thead>
      <tbody>{found.names.slice(0, 15).map((row) => <tr>
        <th scope="row">{row.name}</th><td>{timeText(row.own)}</td><td>{timeText(row.total)}</td><td>{countText(row.calls)}</td>
      </tr>)}</tbody>
      <caption>{found.names.length ? `Of ${countText(found.spans)} spans that begin in view, most self time first.` : "No span begins in view."}</caption>
    </table>}</Answer>
  </details>;
}
