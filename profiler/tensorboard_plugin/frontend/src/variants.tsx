// All variants of a run in one table: a row for each, a column for each cell, with the ratio to a baseline.

import { type Cell, type Run, type Variants, useAnswer } from "./api";
import type { Show, Shown } from "./address";
import { Chooser } from "./chooser";
import { MARKS, MarkOf, Message } from "./parts";
import { ratioText } from "./units";

export function VariantTable(props: { run: Run; variant: string; shown: Shown; show: Show; choose: (cell: string, variant: string) => void; again: unknown }) {
  const { run, shown, show } = props;
  const names = run.variants.map((one) => one.name);
  const figure = run.grids.find((one) => one.key === shown.figure) ?? run.grids[0];
  const baseline = names.includes(shown.baseline ?? "") ? shown.baseline! : names[0];
  const asked = useAnswer<Variants>("variants", { run: run.name, baseline }, props.again);
  if (!figure) return null;
  const places = new Map<string, Cell>();
  for (const cell of run.variants.flatMap((one) => one.cells)) if (cell.status !== "skipped") places.set(cell.label, cell);
  const columns = [...places.values()].sort((a, b) => a.seconds - b.seconds || a.batch_size - b.batch_size);
  const lengths = [...new Set(columns.map((cell) => cell.seconds))];
  if (!columns.length) return null;
  return <section class="variants" aria-label="Variants">
    <h3>Variants</h3>
    <div class="bar">
      <Chooser name="Figure" values={run.grids.map((one) => one.key)} chosen={figure.key} choose={(key) => show({ figure: key })}
        titles={Object.fromEntries(run.grids.map((one) => [one.key, one.title]))} />
      <Chooser name="Baseline" values={names} chosen={baseline} choose={(name) => show({ baseline: name })} />
    </div>
    {asked.error && <Message kind="error">{asked.error}</Message>}
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of variants">
      <table data-variants={figure.key}>
        <thead>
          <tr><th scope="col" rowSpan={2}>variant</th>{lengths.map((seconds) => <th scope="colgroup"
            colSpan={columns.filter((cell) => cell.seconds === seconds).length}>{seconds} s</th>)}</tr>
          <tr>{columns.map((cell) => <th scope="col">batch {cell.batch_size}</th>)}</tr>
        </thead>
        <tbody>{run.variants.map(({ name, cells }) => <tr>
          <th scope="row">{name}{name === baseline && <small> baseline</small>}</th>
          {columns.map(({ label }) => {
            const cell = cells.find((one) => one.label === label);
            if (!cell) return <td><span class="absent">–</span></td>;
            const compared = asked.value?.baseline === baseline ? asked.value.variants[name]?.[label]?.[figure.key] : undefined;
            const unstable = figure.timed && cell.verdict === "unstable";
            const mark = compared && compared.ratio !== null ? compared.mark : undefined;
            const { text, value } = cell.figures[figure.key];
            return <td><button type="button" class={`cell pair ${cell.status} ${unstable ? "unstable" : ""} ${mark ? `pair-${mark}` : ""}`} data-of={`${name}/${label}`} data-mark={mark}
              aria-pressed={name === props.variant && label === shown.cell} title={cell.reason ?? (compared?.reason || undefined)}
              aria-label={`${name}, ${label}: ${text}${mark ? `, ${ratioText(compared!.ratio!)} of the baseline, ${MARKS[mark].word}` : ""}`}
              onClick={() => props.choose(label, name)}><span class={figure.key === "rtf" && (value ?? 0) > 1 ? "slow" : undefined}>{text}</span>{mark && <MarkOf mark={mark} text={ratioText(compared!.ratio!)} />}</button></td>;
          })}
        </tr>)}</tbody>
      </table>
    </div>
    <p class="hint">× is the ratio to the baseline, with the verdict of <code>compare</code>: ▲ slower or more, ▼ faster or less, = same, ? unclear.</p>
  </section>;
}
