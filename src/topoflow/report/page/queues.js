// How much waits at the fullest ports over time: a row per port, a cell per interval in which something does.
"use strict";

async function queues() {
  if (!page.queues.length) return;
  const { names, interval, depth } = page.queues[document.getElementById("queues-world").value];
  const most = Math.max(...depth.flat());
  heatScale("queues-scale", "0 B", `${bytes(most)} (blank: nothing)`);
  const data = { left: [], right: [], top: [], bottom: [], colour: [], port: [], from: [], waits: [], share: [] };
  depth.forEach((row, n) => row.forEach((waits, i) => {
    if (!waits) return;
    data.left.push(1e6 * i * interval); data.right.push(1e6 * (i + 1) * interval); data.top.push(names.length - n + 0.45); data.bottom.push(names.length - n - 0.45);
    data.colour.push(heat(waits / most)); data.port.push(names[n]); data.from.push(`${time(i * interval)} to ${time((i + 1) * interval)}`);
    data.waits.push(bytes(waits)); data.share.push(`${(100 * waits / most).toFixed(1)} %`);
  }));
  const ranges = { x_range: new Range1d({ start: 0, end: 1e6 * depth[0].length * interval }), y_range: new Range1d({ start: 0.4, end: names.length + 0.6 }) };
  chart("queues", { height: 110 + 30 * names.length, x_axis_label: "time [us]", ...ranges }, [["port", "@port"], ["most waiting", "@waits"], ["of the most at any port", "@share"], ["time", "@from"]], (figure) => {
    figure.yaxis.ticker = new Bokeh.FixedTicker({ ticks: names.map((_, n) => names.length - n) });
    figure.yaxis.major_label_overrides = new Map(names.map((name, n) => [names.length - n, name]));
    figure.ygrid.visible = false;
    return figure.quad({ field: "left" }, { field: "right" }, { field: "top" }, { field: "bottom" }, { source: new ColumnDataSource({ data }), fill_color: { field: "colour" }, line_color: null });
  });
}

options("queues-world", page.queues.map((each, n) => [n, each.label]), queues);
drawings.push(queues);
