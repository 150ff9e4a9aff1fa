// A table that sorts by any column and filters by name. The sorting and filtering is TanStack's.

import {
  type ColumnDef, type SortingState, createTable, getCoreRowModel, getFilteredRowModel, getSortedRowModel,
} from "@tanstack/table-core";
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";

const AT_FIRST = 200; // rows; a tree of thousands of modules would take seconds to lay out

export interface Column<T> {
  key: string; title: string; hint?: string; numeric?: boolean; value: (row: T) => number | string | null | undefined;
  text?: (row: T) => ComponentChildren; bar?: boolean;
}

interface TableProps<T> {
  name: string; rows: T[]; columns: Column<T>[]; sort?: string; onSort: (sort: string) => void; filter: string;
  onFilter: (text: string) => void; searched: (row: T) => string; rowClass?: (row: T) => string | undefined;
}

function matcher(text: string): (name: string) => boolean {
  const wanted = text.trim().toLowerCase();
  if (!/[*?]/.test(wanted)) return (name) => name.toLowerCase().includes(wanted);
  const pattern = wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
  return (name) => new RegExp(`^${pattern}$`).test(name.toLowerCase());
}

export function DataTable<T>(props: TableProps<T>) {
  const [all, setAll] = useState(false);
  const sorting: SortingState = useMemo(() => {
    const [id, direction] = (props.sort ?? "").split(":");
    return props.columns.some((column) => column.key === id) ? [{ id, desc: direction !== "up" }] : [];
  }, [props.sort, props.columns]);
  const rows = useMemo(() => {
    const columns: ColumnDef<T>[] = props.columns.map((column) => ({
      id: column.key, accessorFn: (row) => column.value(row) ?? undefined, sortUndefined: "last",
      sortingFn: column.numeric ? "basic" : "alphanumeric",
    }));
    const matches = matcher(props.filter);
    const table = createTable<T>({
      data: props.rows, columns, state: { sorting, globalFilter: props.filter, columnPinning: {} },
      onStateChange: () => {}, renderFallbackValue: null, getCoreRowModel: getCoreRowModel(),
      getSortedRowModel: getSortedRowModel(), getFilteredRowModel: getFilteredRowModel(),
      getColumnCanGlobalFilter: () => true, globalFilterFn: (row) => matches(props.searched(row.original)),
    });
    return table.getRowModel().rows.map((row) => row.original);
  }, [props.rows, props.columns, props.filter, sorting]);
  const shown = all ? rows : rows.slice(0, AT_FIRST);
  const most: Record<string, number> = {};
  for (const column of props.columns.filter((one) => one.bar)) {
    most[column.key] = Math.max(0, ...props.rows.map((row) => Number(column.value(row)) || 0)) || 1;
  }
  return <div class="data-table">
    <label class="filter">Filter by name <input type="search" value={props.filter} placeholder="part of a name, or encoder*"
      onInput={(event) => props.onFilter(event.currentTarget.value)} /></label>
    <span class="count" role="status">{rows.length} of {props.rows.length} rows</span>
    <div class="scroll" tabIndex={0} role="region" aria-label={props.name}>
      <table data-table={props.name}>
        <thead><tr>{props.columns.map((column) => {
          const sorted = sorting[0]?.id === column.key ? (sorting[0].desc ? "descending" : "ascending") : undefined;
          const next = sorted === "descending" ? `${column.key}:up` : sorted === "ascending" ? "" : `${column.key}:down`;
          return <th scope="col" class={column.numeric ? "number" : undefined} aria-sort={sorted ?? "none"} title={column.hint}>
            <button type="button" data-column={column.key} onClick={() => props.onSort(next)}>{column.title}
              <span aria-hidden="true">{sorted ? (sorting[0].desc ? " ▼" : " ▲") : ""}</span></button>
          </th>;
        })}</tr></thead>
        <tbody>{shown.map((row) => <tr class={props.rowClass?.(row)}>{props.columns.map((column, place) => {
          const value = column.value(row);
          const text = value === null || value === undefined ? "" : column.text ? column.text(row) : value;
          const bar = column.bar && value ? `--part: ${(100 * Number(value)) / most[column.key]}%` : undefined;
          return place === 0 ? <th scope="row">{text}</th>
            : <td class={`${column.numeric ? "number" : ""}${bar ? " bar" : ""}`} style={bar}>{text}</td>;
        })}</tr>)}</tbody>
      </table>
    </div>
    {shown.length < rows.length && <button type="button" onClick={() => setAll(true)}>Show all {rows.length} rows</button>}
  </div>;
}
