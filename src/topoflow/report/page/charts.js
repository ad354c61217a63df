// Charts of the worlds of a report: bars, and the explorer.
"use strict";

const clickable = (found) => {
  if (!found) return;
  found.figure.add_tools(new TapTool());
  found.source.selected.change.connect(() => {
    const [first] = found.source.selected.indices;
    if (first !== undefined) choose(found.source.data.number[first]);
  });
};
const colours = (rows) => rows.map((row) => page.fabrics[row.fabric]);
const numbered = page.rows.map((row, number) => ({ ...row, number }));

// Bars: what the busiest server computes, how long it waits for its host, then the rest.
function bars() {
  const shown = numbered.slice(0, 60);
  const ys = shown.map((_, n) => shown.length - n);
  const busy = (row) => row.compute ?? 0, waited = (row) => busy(row) + (row.host ?? 0);
  const kinds = [["computing", () => 0, busy, () => page.kinds.compute], ["waiting for its host", busy, waited, () => page.kinds.host], ["exposed communication", waited, (row) => row.time, (row) => page.fabrics[row.fabric]]];
  const data = { y: [], left: [], right: [], colour: [], what: [], label: [], took: [], whole: [], number: [] };
  for (const [what, left, right, colour] of kinds) {
    shown.forEach((row, n) => {
      data.y.push(ys[n]); data.left.push(left(row) * 1e3); data.right.push(right(row) * 1e3); data.colour.push(colour(row));
      data.what.push(what); data.label.push(row.label); data.took.push(time(right(row) - left(row))); data.whole.push(time(row.time)); data.number.push(row.number);
    });
  }
  clickable(chart("bars", { height: 90 + 24 * shown.length, x_axis_label: "time of one training step [ms]" }, [["world", "@label"], ["@what", "@took"], ["step", "@whole"]], (figure) => {
    figure.yaxis.ticker = new Bokeh.FixedTicker({ ticks: ys });
    figure.yaxis.major_label_overrides = new Map(shown.map((row, n) => [ys[n], row.label]));
    figure.x_range.start = 0;
    return figure.hbar({ field: "y" }, 0.7, { field: "right" }, { field: "left" }, { source: new ColumnDataSource({ data }), fill_color: { field: "colour" }, line_color: null });
  }));
}

// Explorer: one number of the rows against another.
const measures = page.measures.filter(({ key }) => page.rows.some((row) => row.values[key] !== null));
function scatter() {
  const [across, up] = ["across", "up"].map((id) => document.getElementById(id).value);
  const rows = numbered.filter((row) => row.values[across] !== null && row.values[up] !== null);
  const name = (key) => page.measures.find((each) => each.key === key).label;
  const data = { x: rows.map((row) => row.values[across]), y: rows.map((row) => row.values[up]), colour: colours(rows), label: rows.map((row) => row.label), time: rows.map((row) => time(row.time)), cost: rows.map((row) => (row.cost === null ? "-" : `$${Math.round(row.cost).toLocaleString("en")}`)), number: rows.map((row) => row.number) };
  const spread = (values) => (Math.min(...values) > 0 && Math.max(...values) > 4 * Math.min(...values) ? "log" : "linear"); // as in price.png
  const axes = { x_axis_type: spread(data.x), y_axis_type: spread(data.y) };
  clickable(chart("scatter", { height: 420, x_axis_label: name(across), y_axis_label: name(up), ...axes }, [["world", "@label"], ["step", "@time"], ["cost", "@cost"], [name(across), "@x{0.[0000]a}"], [name(up), "@y{0.[0000]a}"]], (figure) => {
    for (const axis of [figure.xaxis, figure.yaxis]) axis.formatter = new Bokeh.NumeralTickFormatter({ format: "0,0.[0000]" });
    const front = rows.filter((row) => row.on_front);
    if (across === "cost_usd" && up === "iteration_time") {
      for (const job of new Set(front.map((row) => row.job))) {
        const mine = front.filter((row) => row.job === job);
        figure.line(mine.map((row) => row.values[across]), mine.map((row) => row.values[up]), { line_color: "#888888", line_dash: "dashed" });
      }
    }
    const best = rows.filter((row) => row.recommended);
    figure.scatter(best.map((row) => row.values[across]), best.map((row) => row.values[up]), { size: 20, fill_color: null, line_color: isDark() ? "#e6e6e6" : "#222222", line_width: 2 });
    return figure.scatter({ field: "x" }, { field: "y" }, { source: new ColumnDataSource({ data }), size: 11, fill_color: { field: "colour" }, line_color: "#888888" });
  }));
}

// Parallel coordinates: a line per world, an axis per number or key that differs.
function parallel() {
  const axes = page.factors;
  if (axes.length < 2) {
    document.getElementById("parallel").parentElement.hidden = true;
    return;
  }
  const place = (axis, row) => {
    const value = (axis.choices ? row.swept : row.values)[axis.key];
    if (value === null || value === undefined) return NaN;
    if (axis.choices) return axis.choices.length > 1 ? axis.choices.indexOf(value) / (axis.choices.length - 1) : 0.5;
    return axis.high > axis.low ? (value - axis.low) / (axis.high - axis.low) : 0.5;
  };
  const data = { xs: numbered.map(() => axes.map((_, n) => n)), ys: numbered.map((row) => axes.map((axis) => place(axis, row))), colour: colours(numbered), label: numbered.map((row) => row.label), time: numbered.map((row) => time(row.time)), number: numbered.map((row) => row.number) };
  clickable(chart("parallel", { height: 380, x_range: new Range1d({ start: -0.3, end: axes.length - 0.6 }), y_range: new Range1d({ start: -0.12, end: 1.15 }) }, [["world", "@label"], ["step", "@time"]], (figure) => {
    figure.xaxis.ticker = new Bokeh.FixedTicker({ ticks: axes.map((_, n) => n) });
    figure.xaxis.major_label_overrides = new Map(axes.map((axis, n) => [n, axis.label]));
    figure.yaxis.visible = false;
    const ends = axes.flatMap((axis, n) => (axis.choices ?? [axis.low_text, axis.high_text]).map((text, at, all) => ({ x: n, y: all.length > 1 ? at / (all.length - 1) : 0.5, text: ` ${text}` })));
    const labels = figure.text(ends.map((end) => end.x), ends.map((end) => end.y), ends.map((end) => end.text), { text_font_size: "11px", text_color: "#888888", text_baseline: "bottom" });
    labels.level = "overlay";
    return figure.multi_line({ field: "xs" }, { field: "ys" }, { source: new ColumnDataSource({ data }), line_color: { field: "colour" }, line_width: 2, line_alpha: 0.75 });
  }));
}

// The first of these measures that the worlds have.
const first = (...wanted) => wanted.map((key) => measures.findIndex((each) => each.key === key)).find((found) => found >= 0) ?? 0;
const keys = measures.map(({ key, label }) => [key, label]);
options("across", keys, scatter, first("cost_usd", "bandwidth_tax"));
options("up", keys, scatter, first("iteration_time"));
document.getElementById("legend")?.replaceChildren(...Object.entries(page.fabrics).flatMap(([name, colour]) => {
  const chip = document.createElement("span");
  [chip.className, chip.style.background] = ["chip", colour];
  return [chip, name];
}));
drawings.push(bars, scatter, parallel);
