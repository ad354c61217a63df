// Timeline: what every server does when. What a window shows is drawn anew when it changes (levels.js).
"use strict";

const MANY = 32; // servers: with more of them, a band for each kind is clearer than lanes for each server

function taskName(tasks, n) {
  return n < 0 ? "the start of the step" : tasks.names[tasks.name[n]] || `task ${tasks.task[n]}`;
}

// What a rectangle says of itself; of several tasks, that of the first.
function described(layout, { from, to, count, task: n, start, finish }) {
  const { tasks, servers } = layout;
  const group = tasks.groups[tasks.on[n]];
  const [first, last] = [from, Math.min(to, servers) - 1];
  const drawn = first === last ? `server ${first}` : `servers ${first} to ${last}`;
  const on = !group.length ? "no server" : group.length > 1 ? `${drawn} (${group.length} take part)` : tasks.target[n] >= 0 ? `${drawn} to ${tasks.target[n]}` : drawn;
  return {
    name: count > 1 ? `${count.toLocaleString("en")} tasks, the first: ${taskName(tasks, n)}` : taskName(tasks, n),
    on: count > 1 ? drawn : on,
    when: `${time(start / 1e9)} to ${time(finish / 1e9)} (${time((finish - start) / 1e9)})`,
    size: tasks.kinds[tasks.kind[n]] === "compute" ? "-" : bytes(tasks.bytes[n]),
    waited: taskName(tasks, tasks.waited[n]),
  };
}

function rectangles(layout, found) {
  const { tasks, kinds } = layout;
  const data = { left: [], right: [], top: [], bottom: [], colour: [], kind: [], count: [], task: [], name: [], on: [], when: [], size: [], waited: [] };
  for (const each of found) {
    const kind = tasks.kinds[kinds[each.lane]];
    const [low, high] = layout.place(each.lane, each.from, each.to);
    data.left.push(each.start / 1e6); data.right.push(each.finish / 1e6); data.top.push(low); data.bottom.push(high);
    data.colour.push(page.kinds[kind] ?? page.kinds.other); data.kind.push(kind); data.count.push(each.count); data.task.push(tasks.task[each.task]);
    for (const [key, text] of Object.entries(described(layout, each))) data[key].push(text);
  }
  return data;
}

// Names of rows at round numbers of servers, some 40 pixels apart; of a band, its kind at its first server.
function rowNames(layout, view) {
  const least = (40 * (view.high - view.low)) / view.height;
  const every = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384].find((step) => step >= least) ?? layout.rows;
  const names = new Map();
  layout.kinds.forEach((kind, lane) => {
    if (lane && !layout.byKind) return;
    const base = layout.byKind ? lane * layout.band : 0;
    for (let server = 0; server < layout.rows; server += every) {
      const text = server === layout.servers ? "none" : `${server}`;
      names.set(base + server + 0.5, layout.byKind && !server ? `${layout.tasks.kinds[kind].replace("_", "-")}  ${text}` : text);
    }
  });
  return names;
}

function viewOf(figure, wide, high) {
  const { x_range: x, y_range: y } = figure;
  return { left: 1e6 * Math.min(x.start, x.end), right: 1e6 * Math.max(x.start, x.end), low: Math.min(y.start, y.end), high: Math.max(y.start, y.end), width: wide, height: high };
}

async function unpackTasks(text) {
  const tasks = await unpack(text);
  const summed = (steps) => { let at = 0; return steps.map((step) => (at += step)); };
  const start = summed(tasks.start);
  return { ...tasks, task: summed(tasks.task), start, finish: tasks.duration.map((took, n) => start[n] + took) };
}

async function timeline() {
  if (!page.timelines.length) return;
  const chosen = page.timelines[document.getElementById("timeline-world").value];
  const tasks = await unpackTasks(chosen.tasks);
  const rows = document.getElementById("timeline-rows");
  if (!rows.value || rows.dataset.of !== chosen.label) {
    rows.value = chosen.servers > MANY ? "kind" : "server";
    rows.dataset.of = chosen.label;
  }
  const layout = timelineLayout(tasks, chosen.servers, rows.value === "kind");
  const tall = Math.round(Math.min(700, Math.max(200, (layout.byKind ? 5 : 16) * layout.height)));
  const end = tasks.finish.reduce((a, b) => Math.max(a, b), 1) / 1e6;
  const ranges = { x_range: new Range1d({ start: 0, end: 1.01 * end }), y_range: new Range1d({ start: layout.height, end: 0 }) };
  const source = new ColumnDataSource({ data: rectangles(layout, []) });
  const ticker = new Bokeh.FixedTicker({ ticks: [] });
  const found = chart("timeline", { wheel: "xwheel_zoom", height: tall + 90, ...ranges, x_axis_label: "time in the step [ms]", y_axis_label: "server" }, [["task", "@name (@kind)"], ["on", "@on"], ["ran", "@when"], ["bytes", "@size"], ["waited for", "@waited"]], (figure) => {
    figure.yaxis.ticker = ticker;
    figure.ygrid.visible = false;
    // an outline of half a pixel: the shortest task is seen, too
    return figure.quad({ field: "left" }, { field: "right" }, { field: "top" }, { field: "bottom" }, { source, fill_color: { field: "colour" }, line_color: { field: "colour" }, line_width: 0.5 });
  });
  if (!found) return;
  let waiting = null;
  const redraw = () => {
    waiting = null;
    const view = viewOf(found.figure, found.figure.width ?? 1100, tall);
    const names = rowNames(layout, view);
    ticker.ticks = [...names.keys()];
    found.figure.yaxis.major_label_overrides = names;
    found.detail = { ...levelOfDetail(layout, view), view, layout };
    source.data = rectangles(layout, found.detail.rectangles);
    found.redraws = (found.redraws ?? 0) + 1;
  };
  for (const range of [found.figure.x_range, found.figure.y_range]) {
    for (const side of ["start", "end"]) range.properties[side].change.connect(() => { waiting ??= setTimeout(redraw, 40); });
  }
  redraw();
  const legend = layout.kinds.map((kind) => {
    const [item, chip] = [document.createElement("span"), document.createElement("span")];
    chip.className = "chip";
    chip.style.background = page.kinds[tasks.kinds[kind]] ?? page.kinds.other;
    item.append(" ", chip, tasks.kinds[kind].replace("_", "-"));
    return item;
  });
  document.getElementById("timeline-count").replaceChildren(`${tasks.task.length.toLocaleString("en")} tasks:`, ...legend);
}

options("timeline-world", page.timelines.map((each, n) => [n, each.label]), timeline);
document.getElementById("timeline-rows")?.addEventListener("change", timeline);
drawings.push(timeline);
