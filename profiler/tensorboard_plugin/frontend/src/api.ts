// What the server answers, and the one way to ask it. A refusal is an Error whose message is a sentence for the reader.

import { useEffect, useState } from "preact/hooks";

const BASE = new URL(".", import.meta.url);

export type Values = Record<string, string | number | undefined | null>;

/** `began` in seconds; what follows is missing where the file does not tell it, and of very old runs. */
export interface RunEntry { name: string; kind: "run" | "traces"; began: number; status?: string; model?: string }
export interface Runs { folder: string; runs: RunEntry[] }
/** Texts and titles are those of `report`: profiler/metrics.py writes them. The title of a grid has the unit of its texts. */
export interface Figure { value: number | null; text: string }
export interface GridOf { key: string; title: string; timed: boolean }
export interface Cell {
  label: string; seconds: number; batch_size: number; status: "ok" | "skipped" | "failed"; reason: string | null;
  verdict: "stable" | "unstable" | null; verdict_reasons: string[]; half_width: number | null;
  timed_region: string | null; breakdown: boolean; facts: [string, string][]; figures: Record<string, Figure>; traces?: string[];
}
export interface Model {
  source: string; type: string; weights: string | null; output: string | null; notes: string[]; about: string[];
}
export interface Variant { name: string; model: Model | null; cells: Cell[] }
export interface Run {
  name: string; kind: "run"; stamp: string; unchanged?: boolean; problem: string | null;
  run: { id: string; recipe: string; command: string; started: string; finished: string | null; status: string; notes: string[] };
  machine: Record<string, unknown>;
  grids: GridOf[];
  variants: Variant[];
  planned: { seconds: number[]; batch_sizes: number[] };
  datasets: string[];
}
export interface Traces { name: string; kind: "traces"; traces: string[] }
export type Mark = "slower" | "faster" | "same" | "unclear" | "not judged" | "less" | "more" | "unknown" | "left only" | "right only";
export interface Compared { ratio: number | null; mark: Mark; reason: string }
export interface Pair { left: Cell | null; right: Cell | null; figures: Record<string, Compared> }
export interface Place extends Pair { seconds: number; batch_size: number }
/** Of every variant but the baseline: cell -> figure. */
export interface Variants { baseline: string; variants: Record<string, Record<string, Record<string, Compared>>> }
export interface SideBySide { places: Place[]; differs: string[]; notes: string[]; rule: string; pair?: Pair }
export interface Row {
  name: string; phase?: string; calls?: number | null; total_s?: number; own_s?: number; share?: number; own_share?: number;
  s_per_second_of_audio?: number; memory_bytes?: number | null; macs?: number | null; device_s?: number | null; device_own_s?: number | null;
}
export interface KernelRow {
  name: string; short: string; calls: number; total_s: number; share: number; mean_s: number; least_s: number; most_s: number;
  occupancy: number | null; tensor_cores: boolean; operator: string; longest: { row: number; time: number };
}
export interface Gpu {
  rank: number | null; ranks: number | null; idle: number; shares: Record<string, number>; advice: string[]; launch_bound: boolean;
  launch_delay_s: number | null; kernel_median_s: number | null;
  devices: {
    id: number; name: string; bytes: number | null; utilisation: number | null; sm_efficiency: number | null; occupancy: number | null;
    tensor_cores: number | null; kernels: number; kernel_s: number;
  }[];
  steps: { name: string; total_s: number; idle_s: number; parts: Record<string, number> }[];
  copies: { name: string; calls: number; total_s: number; bytes: number | null }[];
}
export interface JoinedRow {
  name: string; phase: string; left: Row | null; right: Row | null; ratio: number | null; mark: Mark;
  left_s: number | null; right_s: number | null; left_own_s: number | null; right_own_s: number | null;
}
export interface TableOf<T> { rows: T[]; remarks?: string[]; message?: string; noise?: number }
export interface PlainTable { title: string; header: string[]; rows: string[][]; remarks: string[] }
export interface Outline {
  length: number; spans: number; categories: string[]; tracks: { name: string; rows: number }[]; device: boolean; memory: string[]; stamp: string;
}
export interface CutRow { start: number[]; duration: number[]; name: number[]; category: number[]; count: number[]; match: number[] }
export interface Cut { begin: number; end: number; first: number; names: string[]; rows: CutRow[]; stamp: string }
/** What a launch and what it launched say of one another; `delay` from the one to the other. */
export interface Linked { name: string; row: number; start: number; duration: number; delay: number; path: string[] }
/** `settings`: of what ran on a device, null of all else. */
export interface Span {
  name: string; short: string; category: string; start: number; duration: number; own: number; detail: string; row: number; depth: number;
  track: string; path: string[]; settings: Record<string, number | number[]> | null; linked: Linked[];
}
export interface NameSums { name: string; short: string; device: boolean; calls: number; own: number; total: number }
export interface Found { count: number; names: NameSums[]; number?: number; hit: Span | null }
export interface InWindow { spans: number; names: NameSums[]; left_out: number }
export interface MemoryOf {
  begin: number; end: number;
  devices: Record<string, { times: number[]; bytes: number[]; events: number; peak?: { bytes: number; time: number; path: string[] } }>;
}

export function addressOf(route: string, values: Values = {}): string {
  const address = new URL(route, BASE);
  for (const [key, value] of Object.entries(values)) {
    if (value !== undefined && value !== null && value !== "") address.searchParams.set(key, String(value));
  }
  return address.href;
}

export async function ask<T>(route: string, values: Values = {}, signal?: AbortSignal): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(addressOf(route, values), { signal });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Error("TensorBoard does not answer. Is it still running?");
  }
  let content: unknown;
  try {
    content = await answer.json();
  } catch {
    throw new Error(`The server could not answer (status ${answer.status}). Its terminal says why.`);
  }
  if (!answer.ok) throw new Error((content as { error?: string }).error ?? `The server refused (status ${answer.status}).`);
  return content as T;
}

export interface Asked<T> { value?: T; error?: string; waiting: boolean }

/** Asks whenever the route or one of the values changes; `route` null asks nothing. The last answer stays until the next. */
export function useAnswer<T>(route: string | null, values: Values, again: unknown = 0): Asked<T> {
  const [asked, setAsked] = useState<Asked<T>>({ waiting: route !== null });
  const key = route === null ? null : addressOf(route, values);
  useEffect(() => {
    if (route === null) {
      setAsked({ waiting: false });
      return;
    }
    const stop = new AbortController();
    setAsked((before) => ({ value: before.value, waiting: true }));
    ask<T>(route, values, stop.signal).then(
      (value) => setAsked({ value, waiting: false }),
      (error: Error) => error.name !== "AbortError" && setAsked({ error: error.message, waiting: false }),
    );
    return () => stop.abort();
  }, [key, again]);
  return asked;
}
