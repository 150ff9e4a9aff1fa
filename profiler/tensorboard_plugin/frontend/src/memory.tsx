// What tensors held over time, from the [memory] events of a trace. Drag over the chart to zoom; twice to see all of it.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { type MemoryOf, type Outline, type Values, useAnswer } from "./api";
import { Answer, Message } from "./parts";
import { bytesText, counted, placeText, timeText } from "./units";

const HEIGHT = 260;

export function Memory(props: { values: Values; dark: boolean; again: unknown; title?: string }) {
  const outline = useAnswer<Outline>("trace", props.values, props.again);
  const [part, setPart] = useState<[number, number] | null>(null);
  return <section class="memory" aria-label={props.title ?? "Memory over time"}>
    {props.title && <h4>{props.title}</h4>}
    <Answer asked={outline} waiting="Reading the trace…">{({ length, memory }) => memory.length === 0
      ? <Message>The trace has no [memory] events: it was made with `trace: {"{memory: false}"}`, or by a profiler without profile_memory.</Message>
      : <Charts values={props.values} dark={props.dark} again={props.again} begin={part?.[0] ?? 0} end={part?.[1] ?? length}
        whole={part === null} zoom={setPart} />}</Answer>
  </section>;
}

interface ChartsProps {
  values: Values; dark: boolean; again: unknown; begin: number; end: number; whole: boolean; zoom: (part: [number, number] | null) => void;
}

function Charts(props: ChartsProps) {
  const asked = useAnswer<MemoryOf>("memory", { ...props.values, begin: props.begin, end: props.end, width: 1000 }, props.again);
  return <Answer asked={asked}>{(found) => <>
    {Object.entries(found.devices).map(([device, { times, bytes, peak, events }]) => <div>
      <p class="peak" data-peak={peak?.bytes}><strong>{device}</strong>: {peak
        ? <>at most <strong>{bytesText(peak.bytes)}</strong> at {timeText(peak.time)}, in {peak.path.join(" › ") || "no span"}</>
        : "nothing in this part"} ({counted(events, "allocation or free", "allocations and frees")}).</p>
      <Chart times={times} bytes={bytes} begin={found.begin} end={found.end} dark={props.dark} zoom={props.zoom} />
    </div>)}
    <p class="hint">Drag over the chart to zoom, click it twice to see all of it.{" "}
      {!props.whole && <button type="button" onClick={() => props.zoom(null)}>Whole trace</button>}</p>
  </>}</Answer>;
}

interface ChartProps { times: number[]; bytes: number[]; begin: number; end: number; dark: boolean; zoom: ChartsProps["zoom"] }

function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const { times, bytes, begin, end, dark } = props;
  useEffect(() => {
    const target = place.current!; // the observer may be told of a last change when the reference is empty already
    const style = getComputedStyle(document.documentElement);
    const [ink, line] = [style.getPropertyValue("--ink"), style.getPropertyValue("--line")];
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const accent = style.getPropertyValue("--accent");
    const chart = new uPlot({
      width: target.clientWidth || 800, height: HEIGHT, legend: { show: false },
      scales: { x: { time: false, min: begin, max: end }, y: { range: (_, least, most) => [Math.min(0, least), most * 1.05 || 1] } },
      series: [{}, { stroke: accent, fill: `${accent}33`, width: 1.5, paths: uPlot.paths.stepped!({ align: 1 }), points: { show: false } }],
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((tick) => placeText(tick, ticks[1] - ticks[0] || 1)) },
        { ...axis, size: 80, values: (_, ticks) => ticks.map(bytesText) },
      ],
      cursor: { drag: { x: true, y: false, setScale: false } },
      hooks: {
        setSelect: [(made) => {
          if (made.select.width < 3) return;
          const from = made.posToVal(made.select.left, "x");
          props.zoom([from, made.posToVal(made.select.left + made.select.width, "x")]);
        }],
      },
    }, [times, bytes], target);
    chart.over.addEventListener("dblclick", () => props.zoom(null));
    const fit = new ResizeObserver(() => chart.setSize({ width: target.clientWidth, height: HEIGHT }));
    fit.observe(target);
    return () => {
      fit.disconnect();
      chart.destroy();
    };
  }, [times, bytes, begin, end, dark]);
  return <div ref={place} class="chart" role="img" aria-label="Bytes that tensors held over time" data-points={times.length} />;
}
