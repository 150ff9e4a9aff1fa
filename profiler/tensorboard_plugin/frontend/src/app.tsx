// The page: choose a run and a variant, see its grids, open a cell, put something beside it.

import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { type PlainTable, type Run, type RunEntry, type Runs, type SideBySide, type Traces, type Variant, ask, useAnswer } from "./api";
import { type Show, type Shown, useAddress } from "./address";
import { CellPanel, TracePanel } from "./cell";
import { Chooser, RunChooser } from "./chooser";
import { Grids, SideBySideGrids } from "./grid";
import { Answer, Guard, Message, Remarks } from "./parts";
import { useDark } from "./theme";
import { counted, dateText } from "./units";
import { VariantTable } from "./variants";

const LOOK_AGAIN = 4_000; // milliseconds: a run that is going on writes after every cell
const CALM = 20_000;

export function App() {
  const dark = useDark();
  const [shown, show] = useAddress();
  const [again, setAgain] = useState(0);
  const runs = useAnswer<Runs>("runs", {}, again);
  const reload = () => setAgain((before) => before + 1);
  return <main>
    <Answer asked={runs} waiting="Looking for runs…">{({ folder, runs: found }) => found.length === 0
      ? <Message>There are no runs in {folder} yet. <code>python profile.py recipes/wav2vec2.yaml</code> makes one there; then
        {" "}<button type="button" onClick={reload}>look again</button>.</Message>
      : <Chosen runs={found} shown={shown} show={show} dark={dark} again={again} reload={reload} />}</Answer>
  </main>;
}

interface ChosenProps { runs: RunEntry[]; shown: Shown; show: Show; dark: boolean; again: unknown; reload: () => void }

function Chosen(props: ChosenProps) {
  const { runs, shown, show } = props;
  const name = shown.run ?? runs[0].name;
  const [stamp, setStamp] = useState(0);
  const again = `${props.again}/${stamp}`;
  const asked = useAnswer<Run | Traces>("run", { run: name }, again);
  const value = asked.value?.name === name ? asked.value : undefined;
  useFresh(value, () => setStamp((before) => before + 1));
  const other = { cell: "", window: "", range: "", trace: "", span: "", variant: "", baseline: "", right_run: "", right_variant: "", right_cell: "" };
  return <>
    <header>
      <RunChooser name="Run" runs={runs} chosen={name} choose={(run) => show({ ...other, run })} />
      {value?.kind === "run" && value.variants.length > 0 && <RunControls {...props} run={value} />}
      <span class="gap" />
      <button type="button" onClick={props.reload}>Reload</button>
    </header>
    <Answer asked={{ ...asked, value }} waiting="Reading the run…">{(run) => run.kind === "traces"
      ? <TracePanel run={run.name} traces={run.traces} shown={shown} show={show} dark={props.dark} again={again} />
      : <>
        {run.problem && <Message kind="error">{run.problem}</Message>}
        <Guard key={run.name}><RunView {...props} run={run} again={again} /></Guard>
      </>}</Answer>
  </>;
}

/** Looks whether the results were written again, more often while the run goes on. */
function useFresh(value: Run | Traces | undefined, changed: () => void): void {
  useEffect(() => {
    if (value?.kind !== "run") return;
    const timer = setInterval(async () => {
      if (document.hidden) return;
      const now = await ask<Run>("run", { run: value.name, known: value.stamp }).catch(() => null);
      if (now && !now.unchanged) changed();
    }, value.run.status === "running" ? LOOK_AGAIN : CALM);
    return () => clearInterval(timer);
  }, [value]);
}

const hasGpu = (run: Run) => !String(run.machine.device ?? "cpu").startsWith("cpu");
const variantOf = (run: Run, name?: string): Variant | undefined => run.variants.find((one) => one.name === name) ?? run.variants[0];

function RunControls(props: ChosenProps & { run: Run }) {
  const { run, runs, shown, show } = props;
  const variant = variantOf(run, shown.variant)!;
  const names = run.variants.map((one) => one.name);
  const beside = shown.right_run !== undefined && shown.right_run !== "";
  const next = names.find((name) => name !== variant.name) ?? variant.name;
  return <>
    <Chooser name="Variant" values={names} chosen={variant.name} choose={(name) => show({ variant: name })} />
    <label class="option"><input type="checkbox" checked={beside} data-beside onChange={(event) => show(event.currentTarget.checked
      ? { right_run: run.name, right_variant: next, right_cell: "" } : { right_run: "", right_variant: "", right_cell: "" })} /> side by side</label>
    {beside && <>
      <RunChooser name="Right run" runs={runs.filter((one) => one.kind === "run")} chosen={shown.right_run}
        choose={(name) => show({ right_run: name, right_variant: "", right_cell: "" })} />
      <RightVariant {...props} />
    </>}
  </>;
}

function RightVariant(props: ChosenProps) {
  const { shown, show } = props;
  const asked = useAnswer<Run>("run", { run: shown.right_run }, props.again);
  if (!asked.value || asked.value.kind !== "run" || !asked.value.variants.length) return null;
  const names = asked.value.variants.map((one) => one.name);
  const chosen = variantOf(asked.value, shown.right_variant)!.name;
  return <Chooser name="Right variant" values={names} chosen={chosen} choose={(name) => show({ right_variant: name })} />;
}

function RunView(props: ChosenProps & { run: Run; again: unknown }) {
  const { run, shown, show } = props;
  const variant = variantOf(run, shown.variant);
  const [opened, setOpened] = useState(shown.cell ? 1 : 0); // also the same cell again
  useLayoutEffect(() => {
    if (opened) document.querySelector("[data-panel]")?.scrollIntoView();
  }, [opened]);
  if (!variant) {
    return <>
      <Message>{run.run.status === "running" ? "The run has begun; no cell is measured yet. This page looks again by itself."
        : `This run has no cells (it is ${run.run.status}).`}</Message>
      <Remarks lines={run.run.notes} />
      {run.datasets.length > 0 && <AllTables run={run.name} again={props.again} open />}
    </>;
  }
  const choose = (label: string, of = variant.name) => {
    show({ cell: label, variant: of, window: "", range: "", trace: "", span: "" });
    setOpened((before) => before + 1);
  };
  const cell = variant.cells.find((one) => one.label === shown.cell);
  return <>
    <Summary run={run} variant={variant} />
    {shown.right_run ? <Beside {...props} variant={variant} choose={choose} />
      : <>
        {run.variants.length > 1 && <VariantTable run={run} variant={variant.name} shown={shown} show={show} choose={choose} again={props.again} />}
        {run.variants.length > 1 && <h3>Grids of {variant.name}</h3>}
        <Grids run={run} cells={variant.cells} chosen={shown.cell} choose={choose} />
        {cell ? <CellPanel gpu={hasGpu(run)} left={{ run: run.name, variant: variant.name, cell }} grids={run.grids} shown={shown} show={show} dark={props.dark} again={props.again} />
          : <Message>{shown.cell ? `There is no cell ${shown.cell} in this variant. ` : ""}Choose a cell to see where its time and memory go.</Message>}
      </>}
    <AllTables run={run.name} again={props.again} />
  </>;
}

function Summary(props: { run: Run; variant: Variant }) {
  const { run, machine } = props.run;
  const { model } = props.variant;
  const slow = props.variant.cells.some((cell) => (cell.figures.rtf?.value ?? 0) > 1);
  return <div class="summary">
    <p><strong>{model?.source ?? run.recipe}</strong>{model && <> {model.type}{model.about.map((text) => `, ${text}`)}{model.weights && <>, <span class={`badge ${model.weights}`} data-weights={model.weights}>{model.weights} weights</span></>}</>}
      {" "}<span class={`badge ${run.status}`} data-status={run.status}>{run.status}</span></p>
    <p class="hint">{[dateText(new Date(run.started)), machine.cpu, machine.threads && counted(Number(machine.threads), "thread"), machine.os].filter(Boolean).join(" · ")}</p>
    {model?.weights === "random" && <p class="hint">Random weights: the exact architecture, untrained. Speed and memory hold, the output means nothing.</p>}
    <p class="hint">Seconds of audio × batch size. <span class="unstable sample">~</span> marks an unstable figure{slow && <>, <span class="slow">red</span> one that is slower than real time</>}; grey cells were skipped, red ones failed.</p>
  </div>;
}

function Beside(props: ChosenProps & { run: Run; variant: Variant; again: unknown; choose: (label: string) => void }) {
  const { run, variant, shown, show } = props;
  const right = useAnswer<Run>("run", { run: shown.right_run }, props.again);
  const rightVariant = right.value?.kind === "run" ? variantOf(right.value, shown.right_variant) : undefined;
  const leftCell = variant.cells.find((one) => one.label === shown.cell);
  const rightCell = rightVariant?.cells.find((one) => one.label === (shown.right_cell || shown.cell));
  const asked = useAnswer<SideBySide>(rightVariant ? "side_by_side" : null, {
    left_run: run.name, left_variant: variant.name, right_run: shown.right_run, right_variant: rightVariant?.name,
    left_cell: rightCell && leftCell?.label, right_cell: leftCell && rightCell?.label,
  }, props.again);
  if (right.error) return <Message kind="error">On the right: {right.error}</Message>;
  if (right.value && !rightVariant) return <Message>The run on the right has no cells to compare.</Message>;
  return <Answer asked={asked}>{(found) => <>
    <p class="hint">Left: {variant.name}, {run.name}. Right: {rightVariant?.name}, {shown.right_run}.</p>
    {found.differs.length > 0 && <p class="hint" data-differs>What differs: {found.differs.join("; ")}.</p>}
    <SideBySideGrids grids={run.grids} places={found.places} chosen={shown.cell} choose={(place) => {
      show({ right_cell: "" });
      props.choose((place.left ?? place.right)!.label);
    }} />
    <p class="hint">{found.rule}</p>
    <Remarks lines={found.notes} />
    {leftCell && rightVariant && <Chooser name="Cell on the right" values={rightVariant.cells.map((one) => one.label)}
      chosen={rightCell?.label ?? ""} choose={(label) => show({ right_cell: label })} />}
    {leftCell && rightCell ? <CellPanel gpu={hasGpu(run)} left={{ run: run.name, variant: variant.name, cell: leftCell }}
      right={{ run: shown.right_run!, variant: rightVariant!.name, cell: rightCell }} pair={found.pair} grids={run.grids}
      shown={shown} show={show} dark={props.dark} again={props.again} />
      : <Message>{leftCell ? "The right one has no such cell; choose another." : "Choose a cell to see both sides of it."}</Message>}
  </>}</Answer>;
}

/** Everything else that the run says, as `report` prints it; asked for when opened. */
function AllTables(props: { run: string; again: unknown; open?: boolean }) {
  const [open, setOpen] = useState(props.open ?? false);
  const asked = useAnswer<PlainTable[]>(open ? "all_tables" : null, { run: props.run }, props.again);
  return <details class="all-tables" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
    <summary>All tables of the run</summary>
    <Answer asked={asked}>{(tables) => tables.length === 0 ? <Message>There are none yet.</Message> : <>{tables.map((table) => <figure>
      <figcaption>{table.title}</figcaption>
      <div class="scroll"><table class="plain"><thead><tr>{table.header.map((text) => <th scope="col">{text}</th>)}</tr></thead>
        <tbody>{table.rows.map((row) => <tr>{row.map((text, place) => (place ? <td>{text}</td> : <th scope="row">{text}</th>))}</tr>)}</tbody></table></div>
      <Remarks lines={table.remarks} />
    </figure>)}</>}</Answer>
  </details>;
}
