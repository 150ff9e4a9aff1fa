// One cell, or two side by side: figures, then tabs with tables, memory and trace.

import { type Cell, type GridOf, type Outline, type Pair, type Values, useAnswer } from "./api";
import type { Show, Shown } from "./address";
import { Breakdown } from "./breakdown";
import { Chooser } from "./chooser";
import { GpuOverview, Kernels } from "./gpu";
import { Memory } from "./memory";
import { Guard, MarkOf, Message, Tabs } from "./parts";
import { Timeline } from "./timeline";
import { percentText, ratioText } from "./units";

const TABS = [
  { key: "label", title: "Labels" }, { key: "module", title: "Modules" }, { key: "operator", title: "Operators" },
  { key: "memory", title: "Memory over time" }, { key: "trace", title: "Trace" },
];
const GPU = [{ key: "gpu", title: "GPU" }, { key: "kernels", title: "Kernels" }];
const OF_A_TRACE = ["memory", "trace", "gpu", "kernels"];

export const titleOf = (cell: Cell) => `${cell.seconds} s of audio × batch ${cell.batch_size}`;

/** A cell and where it is from. */
export interface Side { run: string; variant: string; cell: Cell }

export function Figures(props: { cell: Cell }) {
  const { cell } = props;
  if (cell.status !== "ok") return <Message kind={cell.status === "failed" ? "error" : "note"}>{cell.status}: {cell.reason ?? "no reason was recorded"}</Message>;
  return <>
    <dl class="figures">{cell.facts.map(([title, text]) => <div><dt>{title}</dt><dd>{text}</dd></div>)}</dl>
    {cell.verdict === "unstable" && <Message>Unstable: 95 % CI {cell.half_width === null ? "not known" : `±${percentText(cell.half_width)}`}. {cell.verdict_reasons.join(" ")}</Message>}
  </>;
}

function PairFigures(props: { pair: Pair; grids: GridOf[] }) {
  const { pair, grids } = props;
  return <table class="plain" data-pair>
    <thead><tr><th scope="col">figure</th><th scope="col">left</th><th scope="col">right</th><th scope="col">right / left</th></tr></thead>
    <tbody>{grids.map(({ key, title }) => <tr>
      <th scope="row">{title}</th><td>{pair.left?.figures[key].text}</td><td>{pair.right?.figures[key].text}</td>
      <td><MarkOf mark={pair.figures[key].mark} text={pair.figures[key].ratio === null ? "" : ratioText(pair.figures[key].ratio!)} /></td>
    </tr>)}</tbody>
  </table>;
}

interface PanelProps { gpu: boolean; left: Side; right?: Side; pair?: Pair; grids: GridOf[]; shown: Shown; show: Show; dark: boolean; again: unknown }

export function CellPanel(props: PanelProps) {
  const { left, right, shown, show } = props;
  const tabs = props.gpu ? [...GPU, ...TABS] : TABS;
  const tab = tabs.some((one) => one.key === shown.tab) ? shown.tab! : "label";
  const asked = right ? { ...prefixed("left_", left), ...prefixed("right_", right) } : { run: left.run, variant: left.variant, cell: left.cell.label };
  return <section class="panel" aria-label="The chosen cell" data-panel={left.cell.label}>
    <h3>{titleOf(left.cell)} <small>{left.variant}{right && <> — beside {titleOf(right.cell)} <em>{right.variant}{right.run !== left.run && `, ${right.run}`}</em></>}</small></h3>
    {right && props.pair ? <PairFigures pair={props.pair} grids={props.grids} /> : <Figures cell={left.cell} />}
    <Tabs name="About the cell" choices={tabs} chosen={tab} choose={(key) => show({ tab: key, sort: "" })} />
    <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`}>
      <Guard key={tab}>{OF_A_TRACE.includes(tab)
        ? <Recorded {...props} tab={tab} />
        : <Breakdown by={tab} values={asked} paired={!!right} shown={shown} show={show} again={props.again} key={tab} />}</Guard>
    </div>
  </section>;
}

function prefixed(prefix: string, side: Side): Values {
  return { [`${prefix}run`]: side.run, [`${prefix}variant`]: side.variant, [`${prefix}cell`]: side.cell.label };
}

/** What comes from the trace: of both sides, one below the other. */
function Recorded(props: PanelProps & { tab: string }) {
  const sides = [props.left, ...(props.right ? [props.right] : [])];
  return <>{sides.map((side, number) => {
    const files = side.cell.traces ?? [];
    const title = `${number ? "right" : "left"}: ${titleOf(side.cell)}, ${side.variant}`;
    if (!files.length) return <Message>{sides.length > 1 && `${title}: `}There is no trace of this cell. {side.cell.reason
      ?? "`export_logs: True` in the recipe makes one for each cell."}</Message>;
    const file = files.includes(props.shown.trace ?? "") ? props.shown.trace! : files[0];
    return <>
      {files.length > 1 && <Chooser name={`Trace ${number + 1}`} values={files} chosen={file} choose={(trace) => props.show({ trace })}
        titles={Object.fromEntries(files.map((one, place) => [one, `recording ${place + 1} of ${files.length}`]))} />}
      <OfTrace {...props} run={side.run} file={file} title={sides.length > 1 ? title : ""} key={`${side.run}/${file}`} />
    </>;
  })}</>;
}

interface OfTraceProps { run: string; file: string; title: string; tab: string; shown: Shown; show: Show; dark: boolean; again: unknown }

export function OfTrace(props: OfTraceProps) {
  const values = { run: props.run, trace: props.file };
  if (props.tab === "gpu") return <GpuOverview values={values} again={props.again} />;
  if (props.tab === "kernels") return <Kernels values={values} shown={props.shown} show={props.show} again={props.again} />;
  if (props.tab === "memory") return <Memory values={values} dark={props.dark} again={props.again} title={props.title} />;
  return <>
    {props.title && <h4>{props.title}</h4>}
    <Timeline values={values} dark={props.dark} title={props.title || props.file} again={props.again}
      search={props.shown.search ?? ""} onSearch={(search) => props.show({ search }, false)}
      window={props.shown.window} onWindow={(window) => props.show({ window }, false)} span={props.shown.span}
      range={props.shown.range} onRange={(range) => props.show({ range }, false)} />
  </>;
}

const OF_TRACES = TABS.filter((tab) => tab.key !== "module");

/** Traces that belong to no run of ours: what they tell on their own. */
export function TracePanel(props: { run: string; traces: string[]; shown: Shown; show: Show; dark: boolean; again: unknown }) {
  const { shown, show, traces } = props;
  const file = traces.includes(shown.trace ?? "") ? shown.trace! : traces[0];
  const values = { run: props.run, trace: file };
  const outline = useAnswer<Outline>(file ? "trace" : null, values, props.again);
  if (!traces.length) return <Message>There is no trace in this folder (any more).</Message>;
  if (!shown.tab && outline.waiting && !outline.value) return <Message>Reading the trace… a large one takes a few seconds the first time.</Message>;
  const onGpu = outline.value?.device ?? GPU.some((one) => one.key === shown.tab);
  const tabs = onGpu ? [...GPU, ...OF_TRACES] : OF_TRACES;
  const tab = tabs.some((one) => one.key === shown.tab) ? shown.tab! : onGpu ? "gpu" : "trace";
  return <section class="panel" aria-label="The chosen trace" data-panel={file}>
    <Chooser name="Trace" values={traces} chosen={file} choose={(trace) => show({ trace, window: "", range: "", span: "" })} />
    <Tabs name="About the trace" choices={tabs} chosen={tab} choose={(key) => show({ tab: key, sort: "" })} />
    <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`}>
      {tab === "gpu" ? <GpuOverview values={values} again={props.again} traces={traces} show={show} key={file} />
        : OF_A_TRACE.includes(tab) ? <OfTrace {...props} file={file} title="" tab={tab} key={`${file}/${tab}`} />
        : <Breakdown by={tab} values={values} paired={false} shown={shown} show={show} again={props.again} key={tab} />}
    </div>
  </section>;
}
