// A table that sorts by any column and filters by name, flat or as a tree. The sorting and filtering is TanStack's.

import {
  type ColumnDef, type SortingState, createTable, getCoreRowModel, getFilteredRowModel, getSortedRowModel,
} from "@tanstack/table-core";
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { treeOf } from "./tree";

const AT_FIRST = 200; // rows; a tree of thousands of modules would take seconds to lay out
const MANY = 8; // columns, beside which a name has less room

export interface Column<T> {
  key: string; title: string; hint?: string; numeric?: boolean; value: (row: T) => number | string | null | undefined;
  text?: (row: T) => ComponentChildren; bar?: boolean;
}

interface TableProps<T> {
  name: string; rows: T[]; columns: Column<T>[]; sort?: string; onSort: (sort: string) => void; filter: string;
  onFilter: (text: string) => void; searched: (row: T) => string; rowClass?: (row: T) => string | undefined;
  tree?: boolean; weight: (row: T) => number;
}

function matcher(text: string): (name: string) => boolean {
  const wanted = text.trim().toLowerCase();
  if (!/[*?]/.test(wanted)) return (name) => name.toLowerCase().includes(wanted);
  const pattern = wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
  return (name) => new RegExp(`^${pattern}$`).test(name.toLowerCase());
}

export function DataTable<T extends { name: string; phase?: string }>(props: TableProps<T>) {
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
  const [folds, setFolds] = useState(new Map<string, boolean>());
  const tree = props.tree && !props.filter.trim(); // what is found is listed with its whole name
  const listed = tree ? treeOf(rows, props.weight, folds) : rows.map((row) => ({ row, key: "", label: "", depth: 0, children: 0, open: false }));
  const shown = all ? listed : listed.slice(0, AT_FIRST);
  const most = Math.max(0, ...props.columns.filter((one) => one.bar).flatMap((column) => props.rows.map((row) => Number(column.value(row)) || 0))) || 1;
  return <div class="data-table">
    <label class="filter">Filter by name <input type="search" value={props.filter} placeholder="part of a name, or encoder*"
      onInput={(event) => props.onFilter(event.currentTarget.value)} /></label>
    <span class="count" role="status">{listed.length} of {props.rows.length} rows</span>
    {tree && <span class="folds"><button type="button" onClick={() => setFolds(new Map([["", true]]))}>Unfold all</button>{" "}
      <button type="button" onClick={() => setFolds(new Map([["", false]]))}>Fold all</button></span>}
    <div class="scroll" tabIndex={0} role="region" aria-label={props.name}>
      <table data-table={props.name} class={props.columns.length >= MANY ? "many" : undefined}>
        <thead><tr>{props.columns.map((column) => {
          const sorted = sorting[0]?.id === column.key ? (sorting[0].desc ? "descending" : "ascending") : undefined;
          const next = sorted === "descending" ? `${column.key}:up` : sorted === "ascending" ? "" : `${column.key}:down`;
          return <th scope="col" class={column.numeric ? "number" : undefined} aria-sort={sorted ?? "none"} title={column.hint}>
            <button type="button" data-column={column.key} onClick={() => props.onSort(next)}>{column.title}
              <span aria-hidden="true">{sorted ? (sorting[0].desc ? " ▼" : " ▲") : ""}</span></button>
          </th>;
        })}</tr></thead>
        <tbody>{shown.map(({ row, key, label, depth, children, open }) => <tr class={props.rowClass?.(row)} aria-level={tree ? depth + 1 : undefined}>{props.columns.map((column, place) => {
          const value = column.value(row);
          const text = value === null || value === undefined ? "" : column.text ? column.text(row) : value;
          const bar = column.bar && value ? `--part: ${(100 * Number(value)) / most}%` : undefined;
          if (place === 0 && tree) {
            return <th scope="row" title={row.name} style={`--depth: ${depth}`} class="branch">{children > 0
              ? <button type="button" class="fold" aria-expanded={open} data-fold={row.name} aria-label={`${open ? "Fold" : "Unfold"} ${row.name}`}
                onClick={() => setFolds(new Map(folds).set(key, !open))}>{open ? "▾" : "▸"}</button> : <span class="fold" />}{label}{text !== row.name && ` (${row.phase})`}</th>;
          }
          return place === 0 ? <th scope="row" title={row.name}>{text}</th>
            : <td class={`${column.numeric ? "number" : ""}${bar ? " bar" : ""}`} style={bar}>{text}</td>;
        })}</tr>)}</tbody>
      </table>
    </div>
    {shown.length < listed.length && <button type="button" onClick={() => setAll(true)}>Show all {listed.length} rows</button>}
  </div>;
}
