// Where the time of a cell goes, by label, module or operator: alone, or beside another cell.

import { useState } from "preact/hooks";
import { type JoinedRow, type Row, type TableOf, type Values, useAnswer } from "./api";
import type { Show, Shown } from "./address";
import { Answer, MARKS, MarkOf, Message, Remarks } from "./parts";
import { type Column, DataTable } from "./table";
import { countText, mbText, msText, percentText, ratioText, significant } from "./units";

const GIGA = 1e9;

function columnsOf(rows: Row[], by: string): Column<Row>[] {
  const has = (key: keyof Row) => rows.some((row) => row[key] !== null && row[key] !== undefined);
  const cpu = has("device_own_s") ? "CPU " : ""; // of a trace alone, where both are told apart
  const columns: (Column<Row> | false)[] = [
    { key: "name", title: by, value: (row) => row.name },
    new Set(rows.map((row) => row.phase)).size > 1 && { key: "phase", title: "phase", value: (row) => row.phase },
    { key: "calls", title: "calls", numeric: true, value: (row) => row.calls, text: (row) => countText(row.calls!) },
    { key: "total_s", title: `${cpu}total, ms`, hint: "with all that is inside", numeric: true, value: (row) => row.total_s, text: (row) => msText(row.total_s!) },
    { key: "share", title: `${cpu}share`, hint: "of the call", numeric: true, bar: true, value: (row) => row.share, text: (row) => percentText(row.share!) },
    { key: "own_s", title: `${cpu}self, ms`, hint: "without what other rows inside it took", numeric: true, value: (row) => row.own_s, text: (row) => msText(row.own_s!) },
    { key: "own_share", title: `${cpu}self share`, numeric: true, bar: true, value: (row) => row.own_share, text: (row) => percentText(row.own_share!) },
    has("s_per_second_of_audio") && { key: "s_per_second_of_audio", title: "ms per s of audio", numeric: true, value: (row) => row.s_per_second_of_audio, text: (row) => msText(row.s_per_second_of_audio!) },
    has("device_s") && { key: "device_s", title: cpu ? "device total, ms" : "on device, ms", hint: "what was launched in it", numeric: true, value: (row) => row.device_s, text: (row) => msText(row.device_s!) },
    has("device_own_s") && { key: "device_own_s", title: "device self, ms", hint: "what it launched itself", numeric: true, value: (row) => row.device_own_s, text: (row) => msText(row.device_own_s!) },
    has("memory_bytes") && { key: "memory_bytes", title: "memory, MB", numeric: true, value: (row) => row.memory_bytes, text: (row) => mbText(row.memory_bytes!) },
    has("macs") && { key: "macs", title: "GMAC", hint: "multiply-adds, in thousand millions", numeric: true, value: (row) => row.macs, text: (row) => (row.macs ? significant(row.macs / GIGA) : "0") },
  ];
  return columns.filter((column) => column !== false);
}

const JOINED: Column<JoinedRow>[] = [
  { key: "name", title: "name", value: (row) => (row.phase && row.phase !== "forward" ? `${row.name} (${row.phase})` : row.name) },
  { key: "left_s", title: "left, ms", numeric: true, value: (row) => row.left_s, text: (row) => msText(row.left_s!) },
  { key: "right_s", title: "right, ms", numeric: true, value: (row) => row.right_s, text: (row) => msText(row.right_s!) },
  { key: "difference", title: "difference, ms", numeric: true, value: (row) => (row.left && row.right ? row.right_s! - row.left_s! : null), text: (row) => msText(row.right_s! - row.left_s!) },
  { key: "ratio", title: "right / left", numeric: true, value: (row) => row.ratio, text: (row) => ratioText(row.ratio!) },
  { key: "mark", title: "mark", value: (row) => MARKS[row.mark].word, text: (row) => <MarkOf mark={row.mark} text={row.mark === "faster" || row.mark === "slower" ? row.mark : ""} /> },
  { key: "left_own", title: "left self, ms", numeric: true, value: (row) => row.left_own_s, text: (row) => msText(row.left_own_s!) },
  { key: "right_own", title: "right self, ms", numeric: true, value: (row) => row.right_own_s, text: (row) => msText(row.right_own_s!) },
  { key: "left_calls", title: "left calls", numeric: true, value: (row) => row.left?.calls, text: (row) => countText(row.left!.calls!) },
  { key: "right_calls", title: "right calls", numeric: true, value: (row) => row.right?.calls, text: (row) => countText(row.right!.calls!) },
  { key: "left_memory", title: "left memory, MB", numeric: true, value: (row) => row.left?.memory_bytes, text: (row) => mbText(row.left!.memory_bytes!) },
  { key: "right_memory", title: "right memory, MB", numeric: true, value: (row) => row.right?.memory_bytes, text: (row) => mbText(row.right!.memory_bytes!) },
];

interface BreakdownProps { by: string; values: Values; paired: boolean; shown: Shown; show: Show; again: unknown }

export function Breakdown(props: BreakdownProps) {
  const [unfolded, setUnfolded] = useState(false);
  const by = props.by === "module" && unfolded ? "module_unfolded" : props.by;
  const route = props.paired ? "side_by_side_table" : "table";
  const asked = useAnswer<TableOf<Row | JoinedRow>>(route, { ...props.values, by }, props.again);
  const common = {
    name: `By ${props.by}`, sort: props.shown.sort, filter: props.shown.filter ?? "",
    onSort: (sort: string) => props.show({ sort }, false), onFilter: (filter: string) => props.show({ filter }, false),
    searched: (row: { name: string }) => row.name, tree: props.by === "module",
  };
  return <>
    {props.by === "module" && <label class="option"><input type="checkbox" checked={unfolded}
      onChange={(event) => setUnfolded(event.currentTarget.checked)} /> every numbered layer in a row of its own</label>}
    <Answer asked={asked}>{(table) => <>
      {table.message && <Message>{table.message}</Message>}
      {!table.message && !table.rows.length && <Message>There are no rows.</Message>}
      {table.rows.length > 0 && (props.paired
        ? <DataTable {...common} rows={table.rows as JoinedRow[]} columns={JOINED} weight={(row) => Math.max(row.left_s ?? 0, row.right_s ?? 0)} rowClass={(row) => `row-${row.mark.replace(" ", "-")}`} />
        : <DataTable {...common} rows={table.rows as Row[]} columns={columnsOf(table.rows as Row[], props.by)} weight={(row) => row.total_s ?? 0} />)}
      <Remarks lines={table.remarks} />
    </>}</Answer>
  </>;
}
