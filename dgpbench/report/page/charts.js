// Charts: Vega-Lite specifications next to their panels, drawn when they come into view.
const drawn = new Map();
const COLOURS = 8; // --c0 to --c7; with nine marks the first 72 models all look different
const MARKS = [
  "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z", "M-.85,-.85H.85V.85H-.85Z", "M0,-1.1L.9,0L0,1.1L-.9,0Z", "M0,-1L1,.8H-1Z",
  "M0,1L1,-.8H-1Z", "M-.35,-1H.35V-.35H1V.35H.35V1H-.35V.35H-1V-.35H-.35Z", "M-.8,-1L1,0L-.8,1Z", "M.8,-1L-1,0L.8,1Z",
  "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z",
];
function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim(); }
function configOf(width) {
  const [ink, soft, faint, accent, bad, paper] = ["ink", "soft", "faint", "accent", "bad", "paper"].map(colour);
  const axis = {
    labelColor: soft, titleColor: ink, gridColor: faint, domainColor: soft, tickColor: soft, gridOpacity: 0.7,
    labelFontSize: 11, titleFontSize: 12, titleFontWeight: "normal", labelLimit: Math.max(80, Math.round(width * 0.34)),
    titleLimit: Math.max(150, width - 40), labelOverlap: "greedy", tickCount: 5,
  };
  return {
    background: null, font: "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif", padding: 4, axis,
    axisX: { tickCount: Math.max(3, Math.round(width / 90)) }, view: { stroke: null },
    legend: { labelColor: soft, titleColor: ink, orient: "bottom", titleFontWeight: "normal", titleLimit: width - 30 },
    range: { category: Array.from({ length: COLOURS }, (_, i) => colour(`c${i}`)), symbol: MARKS, heatmap: [accent, faint] },
    style: {
      accent: { color: accent }, bad: { color: bad }, ink: { color: ink }, band: { color: accent, opacity: 0.22 },
      line: { color: accent, strokeWidth: 2 }, bar: { color: accent, opacity: 0.75, stroke: paper },
      guide: { color: soft, strokeDash: [4, 3], strokeWidth: 1 }, soft: { color: soft }, inktext: { color: ink },
      papertext: { color: paper },
    },
  };
}
function tell(handler, event, item, value) {
  tip.hidden = value === null || value === undefined || value === "";
  if (tip.hidden) return;
  const lines = typeof value === "object" ? Object.entries(value).map(([name, text]) => `${name}: ${text}`) : [value];
  tip.replaceChildren(...lines.map((line) => Object.assign(document.createElement("p"), { textContent: line })));
  place(tip, { left: event.clientX + 12, top: event.clientY - 8, bottom: event.clientY + 12 });
}
const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
document.body.append(tip);
function refused() { return Promise.reject(new Error("pages load nothing")); }
async function draw(panel) {
  const target = panel.querySelector(".plot");
  if (typeof vega === "undefined") {
    target.textContent = "Charts need the file vega.js, which dgpbench report writes next to this page.";
    return;
  }
  drawn.get(panel)?.finalize();
  const spec = JSON.parse(panel.querySelector("script").textContent);
  const parsed = vegaLite.compile(spec, { config: configOf(target.clientWidth), logger: vega.logger(vega.Error) }).spec;
  const loader = { load: refused, sanitize: refused, http: refused, file: refused };
  const view = new vega.View(vega.parse(parsed, null, { ast: true }), {
    expr: expressionInterpreter, renderer: "svg", container: target, hover: true, loader, tooltip: tell, logLevel: vega.Error,
  });
  drawn.set(panel, view);
  await view.runAsync();
  panel.dataset.drawn = "yes";
}
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((found) => found.isIntersecting)) {
    seen.unobserve(entry.target);
    draw(entry.target);
  }
}, { rootMargin: "400px" });
const charts = [...document.querySelectorAll(".chart")];
for (const panel of charts) seen.observe(panel);
function again() { for (const panel of [...drawn.keys()]) draw(panel); }
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
document.getElementById("theme").addEventListener("click", again);
addEventListener("beforeprint", () => { for (const panel of charts) if (!drawn.has(panel)) draw(panel); });
for (const item of document.querySelectorAll("[data-mark]")) {
  const number = Number(item.dataset.mark), fill = `var(--c${number % COLOURS})`;
  const mark = `<path d="${MARKS[number % MARKS.length]}" style="fill: ${fill}"/>`;
  item.insertAdjacentHTML("afterbegin", `<svg viewBox="-1.3 -1.3 2.6 2.6" aria-hidden="true">${mark}</svg>`);
}
