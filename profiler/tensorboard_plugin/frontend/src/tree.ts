// Rows named `encoder.layers.*.attention` as a tree: what is inside a module stands below it.

export interface Node<T> { row: T; key: string; label: string; depth: number; children: number; open: boolean }

const ROOT = "(model)"; // how a breakdown names the model itself
const WORTH_OPENING = 0.1; // of the largest row: the tree is open along what takes the time

interface Named { name: string; phase?: string }

/** Rows that are in view, in the order that they have among those of the same parent. `chosen`: what a reader opened or closed. */
export function treeOf<T extends Named>(rows: T[], weight: (row: T) => number, chosen: Map<string, boolean>): Node<T>[] {
  const keyOf = (row: T) => `${row.phase ?? ""}|${row.name}`;
  const known = new Set(rows.map(keyOf));
  const most = Math.max(0, ...rows.map(weight));
  const parentOf = (row: T): string | undefined => {
    const phase = row.phase ?? "";
    for (let end = row.name.lastIndexOf("."); end > 0; end = row.name.lastIndexOf(".", end - 1)) {
      if (known.has(`${phase}|${row.name.slice(0, end)}`)) return row.name.slice(0, end);
    }
    return row.name !== ROOT && known.has(`${phase}|${ROOT}`) ? ROOT : undefined;
  };
  const below = new Map<string, { row: T; label: string }[]>();
  for (const row of rows) {
    const parent = parentOf(row);
    const place = parent === undefined ? "" : `${row.phase ?? ""}|${parent}`;
    const label = parent === undefined || parent === ROOT ? row.name : row.name.slice(parent.length + 1);
    if (!below.has(place)) below.set(place, []);
    below.get(place)!.push({ row, label });
  }
  const shown: Node<T>[] = [];
  const walk = (place: string, depth: number) => {
    for (const { row, label } of below.get(place) ?? []) {
      const key = keyOf(row);
      const children = below.get(key)?.length ?? 0;
      const open = children > 0 && (chosen.get(key) ?? chosen.get("") ?? weight(row) >= WORTH_OPENING * most);
      shown.push({ row, key, label, depth, children, open });
      if (open) walk(key, depth + 1);
    }
  };
  walk("", 0);
  return shown;
}
