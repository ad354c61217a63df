// The charts of a figure: lines, steps and bars of plain numbers, a panel per part, each series in its colour.
"use strict";

const page = JSON.parse(document.getElementById("data").textContent);
const MISSING = (values) => values.map((value) => value ?? NaN);

function axisOf(axis, { label, log, ticks }) {
  axis.axis_label = label;
  if (!ticks) return;
  axis.ticker = new Bokeh.FixedTicker({ ticks: ticks.map(([at]) => at) });
  axis.major_label_overrides = new Map(ticks);
  if (!log) axis.major_label_orientation = ticks.length > 6 ? 0.5 : "horizontal";
}

function panel(id, { title, x, y, lines, bars }) {
  const ranges = { x_axis_type: x.log ? "log" : "linear", y_axis_type: y.log ? "log" : "linear" };
  chart(id, { height: 380, title, x_range: new Range1d({ start: x.from, end: x.to }), y_range: new Range1d({ start: y.from, end: y.to }), ...ranges }, null, (figure) => {
    axisOf(figure.xaxis, x);
    axisOf(figure.yaxis, y);
    const tips = [["series", "$name"], [x.label || "x", "@across"], [y.label || "y", "@up"]];
    const drawn = [];
    for (const series of lines) {
      const source = new ColumnDataSource({ data: { x: series.x, y: MISSING(series.y), across: series.across, up: series.up } });
      const look = { source, name: series.name, line_color: series.colour, legend_label: series.name };
      const line = { ...look, line_width: 2, line_dash: series.dash };
      if (series.step) drawn.push(figure.step({ field: "x" }, { field: "y" }, "after", line));
      else figure.line({ field: "x" }, { field: "y" }, line);
      if (series.marker) drawn.push(figure.scatter({ field: "x" }, { field: "y" }, { ...look, marker: series.marker, size: 10, fill_color: series.colour, fill_alpha: 0 }));
      else if (!series.step) drawn.push(figure.renderers[figure.renderers.length - 1]);
    }
    for (const series of bars) {
      const source = new ColumnDataSource({ data: { x: series.x, y: MISSING(series.y), across: series.across, up: series.up } });
      const hatch = series.hatch ? { hatch_pattern: series.hatch, hatch_color: "#ffffff", hatch_alpha: 0.8 } : {};
      drawn.push(figure.vbar({ field: "x" }, series.width, { field: "y" }, y.log ? y.from : 0, { source, name: series.name, fill_color: series.colour, line_color: null, legend_label: series.name, ...hatch }));
    }
    figure.add_tools(new HoverTool({ tooltips: tips, renderers: drawn }));
    return drawn[0];
  });
}

for (const { id, panels } of page.charts) panels.forEach((each, n) => drawings.push(() => panel(`${id}-${n}`, each)));
