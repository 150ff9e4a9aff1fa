// What the GPU did in a recording: figures of each device, where the time of each step went, what follows from it, its
// kernels, and the ranks of a job side by side.

import { useEffect, useState } from "preact/hooks";
import { type Gpu, type KernelRow, type Span, type TableOf, type Values, ask, useAnswer } from "./api";
import type { Show, Shown } from "./address";
import { Details } from "./details";
import { Answer, Message, Remarks } from "./parts";
import { type Column, DataTable } from "./table";
import { bytesText, countText, msText, percentText, significant, timeText } from "./units";

const ROLES: [key: string, title: string][] = [
  ["kernel", "kernel"], ["memcpy", "memcpy"], ["memset", "memset"], ["communication", "communication"],
  ["runtime", "idle: driver call"], ["dataloader", "idle: DataLoader"], ["operator", "idle: CPU operator"], ["other", "idle: other"],
];
const MOST_STEPS = 60;
const MOST_RANKS = 64;
const NONE = "Nothing in this trace ran on a GPU.";
const orNone = (value: number | null | undefined, text: (value: number) => string) => (value === null || value === undefined ? "–" : text(value));
const occupancyText = (value: number) => `${significant(value)}%`;

export function GpuOverview(props: { values: Values; again: unknown; traces?: string[]; show?: Show }) {
  const asked = useAnswer<{ overview: Gpu | null }>("gpu", props.values, props.again);
  return <>
    <Answer asked={asked} waiting="Reading the trace…">{({ overview }) => (overview ? <Facts facts={overview} /> : <Message>{NONE}</Message>)}</Answer>
    {props.traces && props.traces.length > 1 && <Ranks {...props} traces={props.traces} />}
  </>;
}

function Facts(props: { facts: Gpu }) {
  const { facts } = props;
  return <div data-gpu>
    <ul class="advice" data-advice>{facts.advice.map((line) => <li>{line}</li>)}</ul>
    {facts.devices.map((one) => <figure>
      <figcaption>GPU {one.id}{one.name && `, ${one.name}`}{facts.rank !== null && ` (rank ${facts.rank})`}</figcaption>
      <dl class="figures" data-device={one.id}>
        <Figure title="utilisation" hint="of the steps, the part in which a kernel runs" text={orNone(one.utilisation, percentText)} />
        <Figure title="SM efficiency" hint="the same, weighted with the part of the SMs that have work; estimated" text={orNone(one.sm_efficiency, percentText)} />
        <Figure title="occupancy" hint="estimated, mean over kernels weighted with their time" text={orNone(one.occupancy, occupancyText)} />
        <Figure title="tensor cores" hint="of the kernels' time; by their names" text={orNone(one.tensor_cores, percentText)} />
        <Figure title="kernels" text={`${countText(one.kernels)}, ${timeText(one.kernel_s * 1e6)}`} />
        {one.bytes && <Figure title="memory" text={bytesText(one.bytes)} />}
      </dl>
    </figure>)}
    <dl class="figures">
      <Figure title="idle" hint="of the steps, the part in which no device does anything" text={percentText(facts.idle)} />
      <Figure title="launch-bound" hint="idle at least 10 %, at least half of it in short pauses until the next launch" text={facts.launch_bound ? "yes" : "no"} />
      <Figure title="launch to kernel, median" text={orNone(facts.launch_delay_s, (value) => timeText(value * 1e6))} />
      <Figure title="kernel, median" text={orNone(facts.kernel_median_s, (value) => timeText(value * 1e6))} />
    </dl>
    <Steps facts={facts} />
    {facts.copies.length > 0 && <Copies facts={facts} />}
  </div>;
}

const Figure = (props: { title: string; text: string; hint?: string }) => <div title={props.hint}><dt>{props.title}</dt><dd>{props.text}</dd></div>;

function Steps(props: { facts: Gpu }) {
  const [all, setAll] = useState(false);
  const { steps } = props.facts;
  const longest = Math.max(...steps.map((step) => step.total_s), 1e-12);
  const used = ROLES.filter(([key]) => steps.some((step) => step.parts[key] > 0));
  const mean = (value: (step: Gpu["steps"][number]) => number) => steps.reduce((sum, step) => sum + value(step), 0) / (steps.length || 1);
  const rows = [
    ...(steps.length > 1 ? [{ name: "mean", total_s: mean((step) => step.total_s), idle_s: mean((step) => step.idle_s),
      parts: Object.fromEntries(ROLES.map(([key]) => [key, mean((step) => step.parts[key])])) }] : []),
    ...(all ? steps : steps.slice(0, MOST_STEPS)),
  ];
  return <figure>
    <figcaption>Steps: what the GPU does, and what the CPU does while it is idle</figcaption>
    <p class="legend">{used.map(([key, title]) => <span><i class={`role-${key}`} />{title}</span>)}</p>
    <div class="scroll" tabIndex={0} role="region" aria-label="Steps"><table class="plain steps" data-steps={steps.length}>
      <thead><tr><th scope="col">step</th><th scope="col">ms</th><th scope="col">GPU idle</th>{used.map(([, title]) => <th scope="col">{title}</th>)}<th scope="col" class="stacked">share</th></tr></thead>
      <tbody>{rows.map((step) => <tr>
        <th scope="row">{step.name === "all" ? "whole recording" : step.name}</th><td>{msText(step.total_s)}</td>
        <td>{percentText(step.idle_s / (step.total_s || 1))}</td>
        {used.map(([key]) => <td>{percentText(step.parts[key] / (step.total_s || 1))}</td>)}
        <td class="stacked"><span class="stack" aria-hidden="true" style={`width: ${(100 * step.total_s) / longest}%`}>{used.map(([key, title]) => step.parts[key] > 0
          && <i class={`role-${key}`} title={`${title} ${msText(step.parts[key])} ms`} style={`flex-grow: ${step.parts[key] / (step.total_s || 1)}`} />)}</span></td>
      </tr>)}</tbody>
    </table></div>
    {!all && steps.length > MOST_STEPS && <button type="button" onClick={() => setAll(true)}>Show all {steps.length} steps</button>}
  </figure>;
}

function Copies(props: { facts: Gpu }) {
  return <figure><figcaption>Copies and fills</figcaption>
    <div class="scroll"><table class="plain" data-copies>
      <thead><tr><th scope="col">kind</th><th scope="col">calls</th><th scope="col">total, ms</th><th scope="col">size</th><th scope="col">GB/s</th></tr></thead>
      <tbody>{props.facts.copies.map((row) => <tr><th scope="row">{row.name}</th><td>{countText(row.calls)}</td><td>{msText(row.total_s)}</td>
        <td>{orNone(row.bytes, bytesText)}</td><td>{row.bytes && row.total_s ? significant(row.bytes / row.total_s / 1e9) : "–"}</td></tr>)}</tbody>
    </table></div></figure>;
}

const named = (row: KernelRow, choose: (row: KernelRow) => void) => <button type="button" class="link" onClick={() => choose(row)}>{row.short}</button>;

function kernelColumns(rows: KernelRow[], choose: (row: KernelRow) => void): Column<KernelRow>[] {
  const columns: (Column<KernelRow> | false)[] = [
    { key: "name", title: "kernel", value: (row) => row.name, text: (row) => named(row, choose) },
    { key: "calls", title: "calls", numeric: true, value: (row) => row.calls, text: (row) => countText(row.calls) },
    { key: "total_s", title: "total, ms", numeric: true, value: (row) => row.total_s, text: (row) => msText(row.total_s) },
    { key: "share", title: "share", hint: "of the time of all kernels", numeric: true, bar: true, value: (row) => row.share, text: (row) => percentText(row.share) },
    { key: "mean_s", title: "mean, µs", numeric: true, value: (row) => row.mean_s, text: (row) => msText(row.mean_s * 1e3) },
    rows.some((row) => row.occupancy !== null) && { key: "occupancy", title: "occupancy", numeric: true, value: (row) => row.occupancy, text: (row) => occupancyText(row.occupancy!) },
    { key: "tensor_cores", title: "tensor cores", value: (row) => (row.tensor_cores ? "yes" : "no") },
    { key: "least_s", title: "min, µs", numeric: true, value: (row) => row.least_s, text: (row) => msText(row.least_s * 1e3) },
    { key: "most_s", title: "max, µs", numeric: true, value: (row) => row.most_s, text: (row) => msText(row.most_s * 1e3) },
    { key: "operator", title: "operator", value: (row) => row.operator },
  ];
  return columns.filter((column) => column !== false);
}

export function Kernels(props: { values: Values; shown: Shown; show: Show; again: unknown }) {
  const asked = useAnswer<TableOf<KernelRow>>("kernels", props.values, props.again);
  const [chosen, setChosen] = useState<Span | null>(null);
  const choose = (row: KernelRow) => {
    ask<Span | null>("trace/at", { ...props.values, row: row.longest.row, time: row.longest.time }).then(setChosen, () => setChosen(null));
  };
  const open = (span: Span) => {
    const from = Math.min(span.start, ...span.linked.map((one) => one.start));
    const margin = Math.max(0.1 * (span.start + span.duration - from), 1);
    const window = `${Math.max(0, from - margin).toFixed(2)}-${(span.start + span.duration + margin).toFixed(2)}`;
    props.show({ tab: "trace", trace: String(props.values.trace ?? ""), span: `${span.row}:${span.start}`, window });
  };
  return <Answer asked={asked} waiting="Reading the trace…">{(table) => table.rows.length === 0 ? <Message>{NONE}</Message> : <>
    {chosen && <><Details span={chosen} /><p><button type="button" data-in-trace onClick={() => open(chosen)}>Show this call in the trace</button>{" "}
      <span class="hint">The longest call of the kernel.</span></p></>}
    <DataTable name="Kernels" rows={table.rows} columns={kernelColumns(table.rows, choose)} sort={props.shown.sort} filter={props.shown.filter ?? ""}
      onSort={(sort) => props.show({ sort }, false)} onFilter={(filter) => props.show({ filter }, false)} searched={(row) => `${row.short} ${row.name}`}
      weight={(row) => row.total_s} />
    <Remarks lines={table.remarks} />
  </>}</Answer>;
}

interface Rank { file: string; facts?: Gpu | null; error?: string }

/** The other traces of the folder: ranks of one job, or recordings of one process. Read one after the other. */
function Ranks(props: { values: Values; again: unknown; traces: string[]; show?: Show }) {
  const files = props.traces.slice(0, MOST_RANKS);
  const [ranks, setRanks] = useState<Rank[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    const read = async () => {
      const found: Rank[] = [];
      for (const file of files) {
        const one: Rank = { file };
        try {
          one.facts = (await ask<{ overview: Gpu | null }>("gpu", { ...props.values, trace: file }, stop.signal)).overview;
        } catch (error) {
          if (stop.signal.aborted) return;
          one.error = (error as Error).message;
        }
        found.push(one);
        setRanks([...found].sort((a, b) => (a.facts?.rank ?? Infinity) - (b.facts?.rank ?? Infinity)));
      }
    };
    void read();
    return () => stop.abort();
  }, [props.values.run, files.join("|"), props.again]);
  const step = (facts: Gpu) => facts.steps.reduce((sum, one) => sum + one.total_s, 0) / (facts.steps.length || 1);
  const measured = ranks.filter((one) => one.facts);
  const slowest = Math.max(0, ...measured.map((one) => step(one.facts!)));
  return <figure>
    <figcaption>Ranks and recordings side by side {ranks.length < files.length && `(${ranks.length} of ${files.length} read)`}</figcaption>
    <div class="scroll" tabIndex={0} role="region" aria-label="Ranks"><table class="plain names" data-ranks={measured.length}>
      <thead><tr>{["trace", "rank", "GPU", "steps", "mean step, ms", "utilisation", "idle", "kernel", "memcpy", "communication", "DataLoader", "occupancy"].map((title) => <th scope="col">{title}</th>)}</tr></thead>
      <tbody>{ranks.map(({ file, facts, error }) => <tr class={facts && measured.length > 1 && step(facts) === slowest ? "row-slower" : undefined}>
        <th scope="row" title={file}>{props.show ? <button type="button" class="link" onClick={() => props.show!({ trace: file, window: "", range: "", span: "" })}>{file}</button> : file}</th>
        {facts ? <>
          <td>{facts.rank ?? "–"}</td><td>{facts.devices.map((one) => one.id).join(", ")}</td><td>{facts.steps.length}</td><td>{msText(step(facts))}</td>
          <td>{facts.devices.map((one) => orNone(one.utilisation, percentText)).join(", ")}</td><td>{percentText(facts.idle)}</td>
          {["kernel", "memcpy", "communication", "dataloader"].map((role) => <td>{percentText(facts.shares[role])}</td>)}
          <td>{facts.devices.map((one) => orNone(one.occupancy, occupancyText)).join(", ")}</td>
        </> : <td colSpan={11}>{error ?? NONE}</td>}
      </tr>)}</tbody>
    </table></div>
    {props.traces.length > MOST_RANKS && <p class="hint">The first {MOST_RANKS} of {props.traces.length} traces.</p>}
    {measured.length > 1 && <p class="hint">The slowest is marked. Where ranks wait for one another, the one with the least communication is the one they wait for.</p>}
  </figure>;
}
