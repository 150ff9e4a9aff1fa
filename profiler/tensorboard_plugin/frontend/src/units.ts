// Numbers as people read them; memory in decimal units, as everywhere in this project.

export function significant(value: number, digits = 3): string {
  if (!value || !isFinite(value)) return String(value);
  const rounded = Number(value.toPrecision(digits)); // 9.999 becomes 10.0, not 10.00
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(rounded))));
  return rounded.toFixed(Math.min(decimals, 12));
}

export function bytesText(count: number): string {
  const sign = count < 0 ? "-" : "";
  const size = Math.abs(count);
  for (const [unit, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]] as const) {
    if (size >= unit * 0.9995) return `${sign}${significant(size / unit)} ${name}`;
  }
  return `${sign}${Math.round(size)} B`;
}

/** Microseconds. */
export function timeText(us: number): string {
  const size = Math.abs(us);
  if (size < 0.9995 && size > 0) return `${significant(us * 1e3)} ns`;
  if (size < 999.5) return `${significant(us)} µs`;
  if (size < 999.5e3) return `${significant(us / 1e3)} ms`;
  return `${significant(us / 1e6)} s`;
}

/** A place on the time line: as many digits as tell it from its neighbours. */
export function placeText(us: number, step: number): string {
  const [unit, name] = step >= 1e5 ? [1e6, "s"] : step >= 100 ? [1e3, "ms"] : [1, "µs"];
  const decimals = Math.max(0, Math.ceil(-Math.log10((step as number) / (unit as number)) - 1e-9));
  return `${(us / (unit as number)).toFixed(Math.min(decimals, 3))} ${name}`;
}

/** The figures of a row, in the units of profiler/units.py. */
export const msText = (seconds: number) => grouped(seconds * 1e3);
export const mbText = (bytes: number) => grouped(bytes / 1e6);

/** Three significant digits, thousands apart: 1,230. */
function grouped(value: number): string {
  return Math.abs(value) < 999.5 ? significant(value) : Number(significant(value)).toLocaleString("en");
}

export function percentText(share: number): string {
  return `${(share * 100).toFixed(1)}%`;
}

export function countText(count: number): string {
  return Number.isInteger(count) ? count.toLocaleString("en") : significant(count, 4);
}

export function ratioText(ratio: number): string {
  return `×${significant(ratio, ratio >= 0.995 && ratio < 10 ? 3 : 2)}`;
}

/** 2026-11-18 13:05, in the reader's time zone. */
export function dateText(when: Date): string {
  if (isNaN(when.getTime())) return "";
  return new Date(when.getTime() - when.getTimezoneOffset() * 60_000).toISOString().slice(0, 16).replace("T", " ");
}

export const counted = (count: number, one: string, more = `${one}s`) => `${countText(count)} ${count === 1 ? one : more}`;
