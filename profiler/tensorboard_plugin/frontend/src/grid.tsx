// Grids as heat maps: rows are seconds of audio, columns are batch sizes, the figure stands in the cell. They are real
// tables with buttons in them, so that keys and screen readers work; colour only repeats what the text says.

import type { Cell, Place, Run } from "./api";
import { MARKS, MarkOf } from "./parts";
import { ratioText } from "./units";

interface GridProps<T> {
  title: string; seconds: number[]; batches: number[]; at: (seconds: number, batch: number) => T | undefined;
  draw: (value: T | undefined, seconds: number, batch: number) => preact.JSX.Element; name: string;
}

function Grid<T>(props: GridProps<T>) {
  return <figure class="grid" data-grid={props.name}>
    <figcaption>{props.title}</figcaption>
    <table onKeyDown={moveFocus}>
      <thead><tr><th scope="col">audio \ batch</th>{props.batches.map((batch) => <th scope="col">{batch}</th>)}</tr></thead>
      <tbody>{props.seconds.map((seconds) => <tr>
        <th scope="row">{seconds} s</th>
        {props.batches.map((batch) => <td>{props.draw(props.at(seconds, batch), seconds, batch)}</td>)}
      </tr>)}</tbody>
    </table>
  </figure>;
}

/** Arrow keys go from cell to cell. */
function moveFocus(event: KeyboardEvent): void {
  const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0];
  const cell = (event.target as HTMLElement).closest("td");
  if (!cell || (!down && !right)) return;
  event.preventDefault();
  const row = cell.parentElement as HTMLTableRowElement;
  const table = row.closest("table")!;
  table.rows[row.rowIndex + down]?.cells[cell.cellIndex + right]?.querySelector("button")?.focus();
}

const LEAST_RANGE = Math.log(2); // the whole range of colours stands for a factor of at least two

/** 0 to 1 on a logarithmic scale: where a value lies between the least and the most. */
function scale(values: number[]): (value: number) => number {
  const logs = values.filter((value) => value > 0).map(Math.log);
  const least = Math.min(...logs);
  const range = Math.max(Math.max(...logs) - least, LEAST_RANGE);
  return (value) => (value > 0 ? (Math.log(value) - least) / range : 0);
}

const spoken = (cell: { seconds: number; batch_size: number }) => `${cell.seconds} seconds of audio, batch of ${cell.batch_size}`;

export function Grids(props: { run: Run; cells: Cell[]; chosen?: string; choose: (label: string) => void }) {
  const { seconds, batch_sizes } = props.run.planned;
  return <div class="grids">
    {props.run.grids.map(({ key, title, timed }) => {
      const values = props.cells.map((cell) => cell.figures[key].value).filter((value) => value !== null);
      const place = scale(values);
      return <Grid title={title} name={key} seconds={seconds} batches={batch_sizes}
        at={(row, column) => props.cells.find((cell) => cell.seconds === row && cell.batch_size === column)}
        draw={(cell, row, column) => {
          if (!cell) return <span class="absent">{props.run.run.status === "running" ? "not yet" : "–"}</span>;
          const { value, text } = cell.figures[key];
          const unstable = timed && cell.verdict === "unstable";
          const why = cell.reason ?? (unstable ? cell.verdict_reasons.join(" ") : "");
          const classes = ["cell", cell.status, unstable && "unstable", key === "rtf" && (value ?? 0) > 1 && "slow"];
          return <button type="button" class={classes.filter(Boolean).join(" ")} data-cell={cell.label} title={why || undefined}
            aria-pressed={cell.label === props.chosen} style={value === null ? undefined : `--heat: ${place(value).toFixed(3)}`}
            aria-label={`${spoken({ seconds: row, batch_size: column })}: ${text}${unstable ? ", unstable" : ""}. ${why}`}
            onClick={() => props.choose(cell.label)}>{text}</button>;
        }} />;
    })}
  </div>;
}

export function SideBySideGrids(props: { grids: Run["grids"]; places: Place[]; chosen?: string; choose: (place: Place) => void }) {
  const seconds = [...new Set(props.places.map((place) => place.seconds))].sort((a, b) => a - b);
  const batches = [...new Set(props.places.map((place) => place.batch_size))].sort((a, b) => a - b);
  return <div class="grids">
    {props.grids.map(({ key, title }) => <Grid title={title} name={key} seconds={seconds} batches={batches}
      at={(row, column) => props.places.find((place) => place.seconds === row && place.batch_size === column)}
      draw={(place) => {
        if (!place) return <span class="absent">–</span>;
        const { ratio, mark, reason } = place.figures[key];
        const [left, right] = [place.left?.figures[key].text ?? "none", place.right?.figures[key].text ?? "none"];
        const cell = place.left ?? place.right!;
        return <button type="button" class={`cell pair pair-${mark.replace(" ", "-")}`} data-cell={cell.label} data-mark={mark} title={reason || undefined}
          aria-pressed={cell.label === props.chosen} onClick={() => props.choose(place)}
          aria-label={`${spoken(place)}: ${left} on the left, ${right} on the right, ${ratio ? ratioText(ratio) : ""} ${MARKS[mark].word}`}>
          <span>{left} | {right}</span>{ratio !== null && <MarkOf mark={mark} text={ratioText(ratio)} />}
        </button>;
      }} />)}
  </div>;
}
