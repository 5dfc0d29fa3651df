// The leaderboard: one metric and one protocol at a time; rows and columns that have it, the best in bold.
const board = document.getElementById("board");
function chosen(name) { return board.querySelector(`[data-filter="${name}"]`).value; }
function digitsOf(error, mean) {
  const size = error ? Math.ceil(-Math.log10(error)) + 1 : 3 - Math.floor(Math.log10(Math.abs(mean) || 1));
  return Math.min(4, Math.max(0, size));
}
function write(cell, numbers, failed) {
  cell.classList.remove("bold");
  cell.replaceChildren();
  delete cell.dataset.value;
  if (numbers) {
    const [mean, error, n] = numbers, digits = digitsOf(error, mean);
    cell.dataset.value = mean;
    const text = mean.toFixed(digits) + (error === null ? "" : ` (${error.toFixed(digits)})`);
    cell.append(Object.assign(document.createElement("span"), { textContent: text }));
    cell.append(" ", Object.assign(document.createElement("small"), { textContent: n }));
  }
  if (failed) {
    const note = { textContent: ` ${failed} failed`, className: "bad" };
    cell.append(Object.assign(document.createElement("small"), note));
  }
}
function markBest(cells, better) {
  const found = cells.filter(([, numbers]) => numbers);
  const most = Math.max(...found.map(([, [, , n]]) => n));
  const even = found.filter(([, [, , n]]) => n === most);
  if (!better || even.length < 2) return;
  const sign = better === "lower" ? -1 : 1;
  const best = even.reduce((a, b) => (sign * b[1][0] > sign * a[1][0] ? b : a));
  const floor = sign * best[1][0] - (best[1][1] || 0);
  for (const [cell, [mean, error]] of even) {
    if (sign * mean + (error || 0) >= floor - 1e-10 * (1 + Math.abs(floor))) cell.classList.add("bold");
  }
}
function refresh() {
  const metric = chosen("metric"), wanted = chosen("dataset");
  const option = board.querySelector('[data-filter="metric"]').selectedOptions[0];
  const better = option ? option.dataset.better : "";
  const words = chosen("search").toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...board.querySelector("tbody").rows];
  for (const row of rows) {
    const fits = ["protocol", "model", "inference"].every((name) => !chosen(name) || row.dataset[name] === chosen(name));
    const sets = [...row.cells].filter((cell) => cell.dataset.numbers).map((cell) => cell.dataset.set);
    const text = [...row.cells].slice(0, 3).map((cell) => cell.textContent).concat(sets).join(" ").toLowerCase();
    row.hidden = !fits || !words.every((word) => text.includes(word));
  }
  const shown = rows.filter((row) => !row.hidden);
  const heads = [...board.querySelector("thead tr").cells];
  heads.forEach((head, index) => {
    if (!head.dataset.set) return;
    const cells = shown.map((row) => {
      const cell = row.cells[index];
      return [cell, cell.dataset.numbers ? JSON.parse(cell.dataset.numbers)[metric] : undefined];
    });
    for (const [cell, numbers] of cells) write(cell, numbers, Number(cell.dataset.failed || 0));
    markBest(cells, better);
    const any = cells.some(([cell, numbers]) => numbers || Number(cell.dataset.failed || 0));
    const hide = !any || (wanted !== "" && head.dataset.set !== wanted);
    for (const row of [board.querySelector("thead tr"), ...rows]) row.cells[index].hidden = hide;
  });
  for (const row of shown) {
    const any = [...row.cells].some((cell) => cell.dataset.set && !cell.hidden && cell.textContent);
    row.hidden = !any;
  }
  document.getElementById("board-none").hidden = shown.some((row) => !row.hidden);
}
if (board) {
  for (const control of board.querySelectorAll("[data-filter]")) control.addEventListener("input", refresh);
  refresh();
}
for (const input of document.querySelectorAll("input[data-rows]")) {
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.getElementById(input.dataset.rows).tBodies[0].rows) {
      const text = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}
