"use strict";
// Figures say more when they are pointed at, have the focus or are tapped: whatever has `data-tip`.
const tip = document.getElementById("tip");
function show(event) {
  const source = event.target.closest?.("[data-tip]");
  tip.hidden = !source;
  if (!source) return;
  tip.textContent = source.dataset.tip;
  const at = source.getBoundingClientRect();
  const left = at.left + at.width / 2 - tip.offsetWidth / 2;
  tip.style.left = `${Math.max(4, Math.min(left, document.documentElement.clientWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${at.top > tip.offsetHeight + 8 ? at.top - tip.offsetHeight - 6 : at.bottom + 6}px`;
}
for (const name of ["pointerover", "pointerdown", "focusin"]) document.addEventListener(name, show);
const hide = () => { tip.hidden = true; };
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
document.addEventListener("toggle", hide, true); // a card opens over it
addEventListener("scroll", hide, { passive: true, capture: true });

// A table with rows to sort gets a button at the head of each column: once up, twice down. What is no number comes last.
function valueOf(row, column) {
  const text = row.cells[column].textContent.trim();
  const number = /^[x±]?(-?[\d,]*\.?\d+(?:e-?\d+)?)/.exec(text);
  return { text, number: number ? Number(number[1].replaceAll(",", "")) : NaN };
}
function sort(table, column, down) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [row, valueOf(row, column)]);
  const rank = ([row, value]) => row.cells[0].textContent.trim() === "total" ? 2 : Number.isNaN(value.number) ? 1 : 0;
  rows.sort((a, b) => {
    const order = rank(a) - rank(b);
    if (order || rank(a) === 2) return order;
    const difference = rank(a) ? a[1].text.localeCompare(b[1].text) : a[1].number - b[1].number;
    return down ? -difference : difference;
  });
  body.append(...rows.map(([row]) => row));
}
for (const table of document.querySelectorAll("table.sort")) {
  if (table.tBodies[0].rows.length < 2) continue;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(table, column, down);
    });
  });
}
