// Choosing a run, also out of thousands: type to narrow the list, the newest first.

import { useMemo, useState } from "preact/hooks";
import type { RunEntry } from "./api";
import { dateText } from "./units";

const MOST = 200;

export function RunChooser(props: { name: string; runs: RunEntry[]; chosen?: string; choose: (name: string) => void }) {
  const [text, setText] = useState("");
  const found = useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return props.runs.filter((run) => words.every((word) => `${titleOf(run)} ${run.name}`.toLowerCase().includes(word)));
  }, [text, props.runs]);
  const listed = found.slice(0, MOST);
  const chosen = props.runs.find((run) => run.name === props.chosen);
  if (chosen && !listed.includes(chosen)) listed.unshift(chosen);
  const id = `run-${props.name}`;
  return <span class="chooser">
    <label for={id}>{props.name}</label>
    {props.runs.length > 8 && <input type="search" placeholder="narrow the list" aria-label={`Narrow the list: ${props.name}`}
      value={text} onInput={(event) => setText(event.currentTarget.value)} />}
    <select id={id} value={props.chosen ?? ""} onChange={(event) => props.choose(event.currentTarget.value)}>
      {!chosen && <option value={props.chosen ?? ""}>{props.chosen ? `${props.chosen} (not here)` : "choose a run"}</option>}
      {listed.map((run) => <option value={run.name}>{titleOf(run)}</option>)}
      {found.length > MOST && <option disabled>… {found.length - MOST} more: type to narrow the list</option>}
    </select>
  </span>;
}

/** The date first, because a narrow page cuts the end off. */
function titleOf(run: RunEntry): string {
  const name = run.name === "." ? "(the log folder itself)" : run.name;
  const when = dateText(new Date(run.began * 1000));
  const model = run.model?.split("/").pop();
  return [when, run.kind === "traces" ? "traces only" : model, run.status, name].filter(Boolean).join(" · ");
}

export function Chooser(props: { name: string; values: string[]; chosen: string; choose: (value: string) => void; titles?: Record<string, string> }) {
  const id = `choose-${props.name.replace(/\W+/g, "-")}`;
  const values = props.values.includes(props.chosen) ? props.values : [props.chosen, ...props.values];
  return <span class="chooser">
    <label for={id}>{props.name}</label>
    <select id={id} value={props.chosen} onChange={(event) => props.choose(event.currentTarget.value)}>
      {values.map((value) => <option value={value}>{props.titles?.[value] ?? value}</option>)}
    </select>
  </span>;
}
