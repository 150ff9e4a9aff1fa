// Small pieces that several views share.

import { Component, type ComponentChildren } from "preact";
import type { Asked, Mark } from "./api";

export function Message(props: { children: ComponentChildren; kind?: "error" | "note" }) {
  return <p class={`message ${props.kind ?? "note"}`} role={props.kind === "error" ? "alert" : "status"}>{props.children}</p>;
}

/** Instead of a blank page: what went wrong in drawing it. */
export class Guard extends Component<{ children: ComponentChildren }, { error?: Error }> {
  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  render() {
    if (!this.state.error) return this.props.children;
    return <Message kind="error">This could not be drawn ({String(this.state.error)}). The files may be of another version of the
      profiler. <button type="button" onClick={() => this.setState({ error: undefined })}>Try again</button></Message>;
  }
}

/** What was asked for, once it is there; until then that it is on its way, or why it is not. */
export function Answer<T>(props: { asked: Asked<T>; waiting?: string; children: (value: T) => ComponentChildren }) {
  const { value, error, waiting } = props.asked;
  if (error) return <Message kind="error">{error}</Message>;
  if (value === undefined) return waiting ? <Message>{props.waiting ?? "Reading…"}</Message> : null;
  return <div class={waiting ? "refreshing" : undefined} aria-busy={waiting}>{props.children(value)}</div>;
}

export const MARKS: Record<Mark, { sign: string; word: string }> = {
  slower: { sign: "▲", word: "slower" },
  faster: { sign: "▼", word: "faster" },
  same: { sign: "=", word: "same" },
  unclear: { sign: "?", word: "unclear" },
  "not judged": { sign: "", word: "not judged" },
  less: { sign: "▼", word: "less" },
  more: { sign: "▲", word: "more" },
  unknown: { sign: "", word: "cannot be compared" },
  "left only": { sign: "◁", word: "left only" },
  "right only": { sign: "▷", word: "right only" },
};

export function MarkOf(props: { mark: Mark; text?: string }) {
  const { sign, word } = MARKS[props.mark];
  return <span class={`mark mark-${props.mark.replace(" ", "-")}`} data-mark={props.mark}>
    {props.text} <span aria-hidden="true">{sign}</span><span class="for-readers"> {word}</span>
  </span>;
}

export function Remarks(props: { lines?: string[] }) {
  if (!props.lines?.length) return null;
  return <ul class="remarks">{props.lines.map((line) => <li>{line.replace(/^- /, "")}</li>)}</ul>;
}

export interface Choice { key: string; title: string }

/** Tabs as the ARIA pattern has them: arrow keys move, one of them is in the tab order. */
export function Tabs(props: { name: string; choices: Choice[]; chosen: string; choose: (key: string) => void }) {
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = props.choices.findIndex((choice) => choice.key === props.chosen);
    const next = props.choices[(at + step + props.choices.length) % props.choices.length];
    props.choose(next.key);
    const list = event.currentTarget as HTMLElement;
    queueMicrotask(() => list.querySelector<HTMLElement>(`[data-tab="${next.key}"]`)?.focus());
  };
  return <div role="tablist" aria-label={props.name} class="tabs" onKeyDown={move}>
    {props.choices.map((choice) => <button type="button" role="tab" id={`tab-${choice.key}`} data-tab={choice.key}
      aria-selected={choice.key === props.chosen} aria-controls="tab-panel" tabIndex={choice.key === props.chosen ? 0 : -1}
      onClick={() => props.choose(choice.key)}>{choice.title}</button>)}
  </div>;
}
