// Pages of runs: those of a folder, one that may still work, two next to each other.
"use strict";

const page = JSON.parse(document.getElementById("data").textContent);
const INTERVAL = 1000; // ms between looks at what works
let shownHtml = page.html;
let listState = "";

// How a search goes: its curves over the time that it worked. A gap in a line is another search of the same run.
function curves() {
  const draw = (id, label, lines) => {
    const shown = lines.filter(({ key }) => page.steps[key]);
    if (!shown.length) return;
    const found = chart(id, { height: 260, x_axis_label: "time that the search worked [s]", y_axis_label: label }, null, (figure) => {
      const renderers = shown.map(({ key, text, colour, dash }) => {
        const data = { x: page.steps.at, y: page.steps[key].map((value) => value ?? NaN), stage: page.steps.stage, round: page.steps.round };
        return figure.line({ field: "x" }, { field: "y" }, { source: new ColumnDataSource({ data }), line_color: colour, line_width: 2, line_dash: dash ?? "solid", ...(lines.length > 1 ? { legend_label: text } : {}) });
      });
      shown.forEach(({ text }, n) => figure.add_tools(new HoverTool({ tooltips: [["search", "@stage"], ["round", "@round"], [text, "@y{0.[0000]a}"]], renderers: [renderers[n]] })));
      return renderers[0];
    });
    found.lines = shown.map(({ key }) => key);
  };
  const [best, screened, coldest] = page.colours;
  draw("search-time", "training step [ms]", [{ key: "time", text: "best, simulated", colour: best }, { key: "best", text: "best of the round, as screened", colour: screened, dash: "dashed" }, { key: "current", text: "coldest chain, as screened", colour: coldest, dash: "dotted" }]);
  draw("search-acceptance", "accepted [%]", [{ key: "acceptance", text: "accepted [%]", colour: best }]);
  draw("search-rate", "evaluations per second", [{ key: "rate", text: "evaluations per second", colour: best }]);
}

// Two runs: a bar for each fabric of each, the second one paler.
function pair() {
  const rows = page.pair;
  const height = 90 + 44 * rows.length;
  const data = { y: [], right: [], colour: [], alpha: [], fabric: [], run: [], took: [] };
  rows.forEach((row, n) => row.times.forEach((seconds, side) => {
    if (seconds === null) return;
    data.y.push(rows.length - n + (side ? -0.2 : 0.2)); data.right.push(seconds * 1e3); data.colour.push(row.colour); data.alpha.push(side ? 0.45 : 1);
    data.fabric.push(row.fabric); data.run.push(page.names[side]); data.took.push(time(seconds));
  }));
  const longest = Math.max(...data.right);
  chart("pair", { height, x_range: new Range1d({ start: 0, end: 1.05 * longest }), y_range: new Range1d({ start: 0.4, end: rows.length + 0.6 }), x_axis_label: "time of one training step [ms]" }, [["fabric", "@fabric"], ["run", "@run"], ["step", "@took"]], (figure) => {
    const ticks = rows.map((_, n) => rows.length - n);
    figure.yaxis.ticker = new Bokeh.FixedTicker({ ticks });
    figure.yaxis.major_label_overrides = new Map(rows.map((row, n) => [rows.length - n, row.fabric]));
    return figure.hbar({ field: "y" }, 0.36, { field: "right" }, 0, { source: new ColumnDataSource({ data }), fill_color: { field: "colour" }, fill_alpha: { field: "alpha" }, line_color: { field: "colour" } });
  });
}

async function drawAll() {
  if (page.steps) curves();
  if (page.pair?.length) pair();
  await Promise.all(showing.splice(0));
  window.topoflow.ready = true;
}
window.topoflow.drawing = drawAll();
document.addEventListener("theme", () => {
  window.topoflow.drawing = window.topoflow.drawing.then(drawAll);
});

// What a page shows of a run that works is replaced by what the server has of it now; charts keep their zoom.
function showRun(fresh) {
  const now = document.getElementById("now");
  if (shownHtml !== fresh.html) {
    shownHtml = now.innerHTML = fresh.html;
    now.querySelectorAll("table.sortable").forEach(addSorting);
  }
  document.getElementById("state").textContent = fresh.state;
  page.live = fresh.live;
  const redraw = Boolean(fresh.steps) !== Boolean(page.steps);
  page.steps = fresh.steps;
  if (redraw) window.topoflow.drawing = window.topoflow.drawing.then(drawAll);
  if (!page.steps || redraw) return;
  for (const { figure, lines } of charts.filter((each) => each.lines)) {
    lines.forEach((key, n) => {
      figure.renderers[n].data_source.data = { x: page.steps.at, y: page.steps[key].map((value) => value ?? NaN), stage: page.steps.stage, round: page.steps.round };
    });
  }
}

// The server sends the rows that changed; a box keeps its mark. Rows that are new come last.
function showRuns(fresh) {
  const body = document.querySelector("#runs tbody");
  const known = new Map([...body.rows].map((row) => [row.dataset.run, row]));
  const sent = new Set(fresh.rows.map(({ name }) => name));
  for (const [name, row] of known) if (fresh.whole ? !sent.has(name) : fresh.gone.includes(name)) row.remove();
  for (const { name, html } of fresh.rows) {
    const row = known.get(name) ?? body.insertRow();
    const marked = row.querySelector("input")?.checked ?? false;
    row.innerHTML = html;
    row.dataset.run = name;
    row.querySelector("input").checked = marked;
  }
  if (fresh.datasets !== null) document.getElementById("datasets").innerHTML = fresh.datasets;
  listState = fresh.state ?? listState;
  document.getElementById("state").textContent = listState;
  page.live = fresh.live;
  if (fresh.rows.length || fresh.gone.length) filter.dispatchEvent(new Event("input"));
}

async function look() {
  if (!page.live) return;
  if (!document.hidden) {
    try {
      const answer = await fetch(page.live);
      if (answer.ok) (page.rows ? showRuns : showRun)(await answer.json());
      else document.getElementById("state").textContent = "The folder is not there any more.";
    } catch {
      document.getElementById("state").textContent = "The server has ended: this page shows what it said last.";
    }
  }
  window.topoflow.looks = (window.topoflow.looks ?? 0) + 1;
  setTimeout(look, INTERVAL);
}
if (page.rows) showRuns(page);
look();

// Two runs are compared: nothing is sent until two are marked.
const form = document.getElementById("two");
const marked = () => form.querySelectorAll("#runs input:checked").length;
function count() {
  document.getElementById("marked").textContent = marked() === 2 ? "" : `Mark two runs to compare them; ${marked()} marked.`;
}
form?.addEventListener("change", count);
form?.addEventListener("submit", (event) => {
  if (marked() !== 2) event.preventDefault();
});
if (form) count();
