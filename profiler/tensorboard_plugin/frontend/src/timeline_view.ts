// Geometry and drawing of the timeline. Knows nothing of the page: a view, what the server cut out of the trace, a canvas.

import type { Cut, Outline, Span } from "./api";
import { placeText, timeText } from "./units";

export const ROW = 18;
export const AXIS = 24;
export const HEAD = 18;
const LEAST = 0.05; // microseconds in view: the trace is not finer

export interface View { begin: number; end: number; top: number }
export type Range = [begin: number, end: number];
export interface Strip { track: number; y: number; row: number; rows: number }
export interface Colours { ink: string; paper: string; line: string; accent: string; dark: boolean }

/** Where each track is drawn, from above: a head with its name, then its rows. */
export function layOut(outline: Outline): { strips: Strip[]; height: number } {
  let [y, row] = [AXIS, 0];
  const strips = outline.tracks.map((track, number) => {
    const strip = { track: number, y, row, rows: track.rows };
    y += HEAD + track.rows * ROW;
    row += track.rows;
    return strip;
  });
  return { strips, height: y + 4 };
}

export function clamp(view: View, length: number): View {
  const span = Math.min(Math.max(view.end - view.begin, LEAST), length || 1);
  const begin = Math.min(Math.max(view.begin, 0), Math.max(0, length - span));
  return { begin, end: begin + span, top: Math.max(0, view.top) };
}

export function zoomed(view: View, factor: number, around: number, length: number): View {
  const share = (around - view.begin) / (view.end - view.begin);
  const span = Math.min(Math.max((view.end - view.begin) * factor, LEAST), length);
  return clamp({ ...view, begin: around - share * span, end: around + (1 - share) * span }, length);
}

export function panned(view: View, by: number, length: number): View {
  const step = (view.end - view.begin) * by;
  return clamp({ ...view, begin: view.begin + step, end: view.end + step }, length);
}

/** The row at a height of the canvas. */
export function rowAt(strips: Strip[], y: number): number | null {
  for (const strip of strips) {
    const inside = Math.floor((y - strip.y - HEAD) / ROW);
    if (inside >= 0 && inside < strip.rows) return strip.row + inside;
  }
  return null;
}

export function rowsInView(strips: Strip[], top: number, height: number): [number, number] {
  let [first, last] = [Infinity, 0];
  for (const strip of strips) {
    const from = Math.max(0, Math.floor((top - strip.y - HEAD) / ROW));
    const to = Math.min(strip.rows, Math.ceil((top + height - strip.y - HEAD) / ROW));
    if (from < to) [first, last] = [Math.min(first, strip.row + from), Math.max(last, strip.row + to)];
  }
  return first === Infinity ? [0, 0] : [first, last];
}

function hueOf(name: string): number {
  let hash = 0;
  for (let place = 0; place < name.length; place++) hash = (hash * 31 + name.charCodeAt(place)) | 0;
  return ((hash % 360) + 360) % 360;
}

const known = new Map<string, string>();

function colourOf(name: string, label: boolean, dark: boolean): string {
  const key = `${name}|${label}|${dark}`;
  let colour = known.get(key);
  if (!colour) {
    const [strength, light] = label ? [55, dark ? 38 : 72] : [32, dark ? 30 : 84];
    colour = `hsl(${hueOf(name)} ${strength}% ${light}%)`;
    known.set(key, colour);
  }
  return colour;
}

function step(span: number, width: number): number {
  const rough = (span / width) * 120;
  const unit = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((one) => one * unit).find((one) => one >= rough) ?? 10 * unit;
}

export interface Drawn { spans: number; joined: number }

/** Draws everything in view; gives how many spans and how many runs of small ones were drawn. */
export function draw(
  canvas: HTMLCanvasElement, outline: Outline, strips: Strip[], view: View, cut: Cut | null, colours: Colours,
  searching: boolean, selected: { row: number; start: number } | null, range: Range | null,
): Drawn {
  const { pen, width, height } = blank(canvas, colours);
  const toX = (time: number) => ((time - view.begin) / (view.end - view.begin)) * width;
  const drawn = { spans: 0, joined: 0 };
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  for (const strip of strips) {
    const y = strip.y - view.top;
    if (cut) {
      for (let inside = 0; inside < strip.rows; inside++) {
        const row = cut.rows[strip.row + inside - cut.first];
        const at = y + HEAD + inside * ROW;
        if (!row || at + ROW < AXIS || at > height) continue;
        for (let place = 0; place < row.start.length; place++) {
          const left = Math.max(toX(row.start[place]), -2);
          const right = Math.min(toX(row.start[place] + row.duration[place]), width + 2);
          if (right < 0 || left > width) continue;
          const name = cut.names[row.name[place]];
          const wide = Math.max(right - left - (right - left > 3 ? 1 : 0), 0.7);
          pen.globalAlpha = searching && !row.match[place] ? 0.25 : 1;
          pen.fillStyle = searching && row.match[place] ? colours.accent
            : colourOf(name, outline.categories[row.category[place]]?.endsWith("annotation") ?? false, colours.dark);
          pen.fillRect(left, at, wide, ROW - 2);
          if (selected && selected.row === strip.row + inside && Math.abs(selected.start - row.start[place]) < 0.01) {
            pen.strokeStyle = colours.ink;
            pen.lineWidth = 2;
            pen.strokeRect(left + 1, at + 1, Math.max(wide - 2, 1), ROW - 4);
          }
          if (wide > 26 && row.count[place] === 1) {
            pen.fillStyle = searching && row.match[place] ? colours.paper : colours.ink;
            const text = `${name}  ${timeText(row.duration[place])}`;
            pen.save();
            pen.beginPath();
            pen.rect(left + 3, at, wide - 5, ROW);
            pen.clip();
            pen.fillText(text, left + 4, at + ROW / 2 - 1);
            pen.restore();
          }
          if (row.count[place] === 1) drawn.spans++;
          else drawn.joined++;
        }
      }
    }
    pen.globalAlpha = 1;
    if (y + HEAD > AXIS) {
      pen.fillStyle = colours.ink;
      pen.fillText(outline.tracks[strip.track].name, 4, y + HEAD / 2);
    }
  }
  drawAxis(pen, view, width, colours, toX);
  if (range) drawRange(pen, range.map(toX) as Range, height, timeText(range[1] - range[0]), colours);
  return drawn;
}

/** An arrow from each launch to what it launched, whichever of the two is chosen. */
export function drawLinks(canvas: HTMLCanvasElement, strips: Strip[], view: View, span: Span, colours: Colours): void {
  const pen = canvas.getContext("2d")!;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const toX = (time: number) => ((time - view.begin) / (view.end - view.begin)) * width;
  const toY = (row: number) => {
    const strip = strips.find((one) => row >= one.row && row < one.row + one.rows);
    return strip ? strip.y + HEAD + (row - strip.row) * ROW + ROW / 2 - 1 - view.top : -ROW;
  };
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, width, height - AXIS);
  pen.clip();
  pen.strokeStyle = pen.fillStyle = colours.accent;
  pen.lineWidth = 2;
  for (const other of span.linked) {
    const [launch, ran] = span.settings ? [other, span] : [span, other];
    const [x, y, toRight, toDown] = [toX(launch.start), toY(launch.row), toX(ran.start), toY(ran.row)];
    const bend = Math.max(Math.abs(toRight - x) / 2, 20);
    pen.beginPath();
    pen.moveTo(x, y);
    pen.bezierCurveTo(x + bend, y, toRight - bend, toDown, toRight - 6, toDown);
    pen.stroke();
    pen.beginPath();
    pen.moveTo(toRight, toDown);
    pen.lineTo(toRight - 8, toDown - 4);
    pen.lineTo(toRight - 8, toDown + 4);
    pen.fill();
  }
  pen.restore();
}

function blank(canvas: HTMLCanvasElement, colours: Colours): { pen: CanvasRenderingContext2D; width: number; height: number } {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d")!;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = colours.paper;
  pen.fillRect(0, 0, width, height);
  return { pen, width, height };
}

/** A measured range: its length on the axis, its ends down to the bottom. */
function drawRange(pen: CanvasRenderingContext2D, [left, right]: Range, height: number, text: string, colours: Colours): void {
  pen.fillStyle = colours.accent;
  pen.globalAlpha = 0.16;
  pen.fillRect(left, 0, right - left, height);
  pen.globalAlpha = 1;
  for (const x of [left, right]) pen.fillRect(x - 0.5, 0, 1, height);
  const wide = pen.measureText(text).width + 10;
  const at = Math.min(Math.max((left + right - wide) / 2, 0), Math.max(0, pen.canvas.clientWidth - wide));
  if (right < 0 || left > pen.canvas.clientWidth) return;
  pen.fillRect(at, 3, wide, AXIS - 6);
  pen.fillStyle = colours.paper;
  pen.fillText(text, at + 5, AXIS / 2);
}

/** The whole trace, small, with the part in view lit. */
export function drawOverview(canvas: HTMLCanvasElement, outline: Outline, whole: Cut | null, view: View, range: Range | null, colours: Colours): void {
  const { pen, width, height } = blank(canvas, colours);
  const toX = (time: number) => (time / outline.length) * width;
  const each = Math.min(height / Math.max(whole?.rows.length ?? 1, 1), 6);
  whole?.rows.forEach((row, number) => row.start.forEach((start, place) => {
    pen.fillStyle = colourOf(whole.names[row.name[place]], true, colours.dark);
    pen.fillRect(toX(start), number * each, Math.max(toX(row.duration[place]), 0.5), Math.max(each - 0.5, 0.5));
  }));
  const [left, right] = [toX(view.begin), Math.max(toX(view.end), toX(view.begin) + 2)];
  pen.fillStyle = colours.paper;
  pen.globalAlpha = 0.6;
  pen.fillRect(0, 0, left, height);
  pen.fillRect(right, 0, width - right, height);
  pen.globalAlpha = 1;
  pen.strokeStyle = colours.accent;
  pen.lineWidth = 2;
  pen.strokeRect(left + 1, 1, Math.max(right - left - 2, 1), height - 2);
  if (range) {
    pen.fillStyle = colours.accent;
    pen.fillRect(toX(range[0]), height - 4, Math.max(toX(range[1] - range[0]), 2), 4);
  }
}

function drawAxis(pen: CanvasRenderingContext2D, view: View, width: number, colours: Colours, toX: (time: number) => number): void {
  pen.fillStyle = colours.paper;
  pen.fillRect(0, 0, width, AXIS);
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(0, AXIS - 0.5);
  pen.lineTo(width, AXIS - 0.5);
  const each = step(view.end - view.begin, width);
  pen.fillStyle = colours.ink;
  for (let time = Math.ceil(view.begin / each) * each; time <= view.end; time += each) {
    const x = Math.round(toX(time)) + 0.5;
    pen.moveTo(x, 0);
    pen.lineTo(x, AXIS);
    pen.fillText(placeText(time, each), x + 4, AXIS / 2);
  }
  pen.stroke();
}
