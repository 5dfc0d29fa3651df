"use strict";
// Theme: the system's unless chosen here.
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
});

// Sorting: a row whose first label is empty belongs to the one above and moves with it.
function groups(body) {
  const found = [];
  for (const row of body.rows) {
    if (row.cells[0].textContent.trim() || !found.length) found.push([]);
    found[found.length - 1].push(row);
  }
  return found;
}
function keyOf(group, index) {
  for (const row of group) {
    const cell = row.cells[index];
    if (cell && cell.dataset.value !== undefined) return Number(cell.dataset.value);
    if (cell && cell.textContent.trim() && cell.textContent.trim()[0] !== "–") return cell.textContent.trim();
  }
  return null;
}
function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const start = groups(body);
  for (const group of start) if (group[0].classList.contains("published")) group[0].classList.add("alone");
  heads.forEach((head, index) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent.trim();
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const state = head.getAttribute("aria-sort");
      const next = state === null ? "descending" : state === "descending" ? "ascending" : null;
      for (const other of heads) other.removeAttribute("aria-sort");
      let order = start;
      if (next) {
        head.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        order = start.map((group) => [keyOf(group, index), group]).sort(([a], [b]) =>
          a === null || b === null ? compare(a, b) : sign * compare(a, b)).map(([, group]) => group);
      }
      body.append(...order.flat());
    });
  });
}

// Details of a cell: on hover or focus, and pinned by a click so that its links can be followed.
const panel = document.getElementById("detail");
let pinned = null;
function show(cell) {
  panel.replaceChildren();
  for (const line of cell.dataset.detail.split("\n")) {
    if (!line) continue;
    const text = document.createElement("p");
    text.textContent = line;
    panel.append(text);
  }
  if (cell.dataset.links) {
    const list = document.createElement("ul");
    for (const path of cell.dataset.links.split("\n")) {
      const link = document.createElement("a");
      link.href = path.split("/").map(encodeURIComponent).join("/");
      link.textContent = path.split("/").slice(-2).join("/");
      const item = document.createElement("li");
      item.append(link);
      list.append(item);
    }
    panel.append(list);
  }
  panel.hidden = false;
  place(panel, cell.getBoundingClientRect());
}
// Put a box below `at`, or above it where there is no room, within the window.
function place(box, at) {
  const size = box.getBoundingClientRect(), width = document.documentElement.clientWidth;
  const below = at.bottom + size.height + 8 < innerHeight;
  box.style.left = `${Math.max(8, Math.min(at.left, width - size.width - 8))}px`;
  box.style.top = `${Math.max(8, below ? at.bottom + 4 : at.top - size.height - 4)}px`;
}
function hide() { panel.hidden = true; pinned = null; }
for (const cell of document.querySelectorAll("td[data-detail]")) {
  cell.addEventListener("mouseenter", () => { if (!pinned) show(cell); });
  cell.addEventListener("mouseleave", () => { if (!pinned) panel.hidden = true; });
  cell.addEventListener("focus", () => { if (!pinned) show(cell); });
  cell.addEventListener("blur", () => { if (!pinned) panel.hidden = true; });
  cell.addEventListener("click", (event) => { event.stopPropagation(); pinned = cell; show(cell); });
}
panel.addEventListener("click", (event) => event.stopPropagation());
document.addEventListener("click", hide);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
addEventListener("scroll", () => { if (!panel.hidden) hide(); }, { passive: true });
