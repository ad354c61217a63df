// A chart of BokehJS in the colours of the page; what is drawn is the page's.
"use strict";

const { Plotting, ColumnDataSource, HoverTool, TapTool, Range1d } = Bokeh;
const charts = [];
const showing = []; // promises of charts that are being drawn
window.topoflow = { charts }; // for tests

const time = (s) => (s === null ? "-" : !s ? "0 s" : s >= 1 ? `${+s.toPrecision(4)} s` : s >= 1e-3 ? `${+(1e3 * s).toPrecision(4)} ms` : `${+(1e6 * s).toPrecision(4)} us`);
const bytes = (b) => (b >= 1e9 ? `${+(b / 1e9).toPrecision(4)} GB` : b >= 1e6 ? `${+(b / 1e6).toPrecision(4)} MB` : b >= 1e3 ? `${+(b / 1e3).toPrecision(4)} kB` : `${b} B`);
const heat = (share) => `hsl(${Math.round(210 - 200 * Math.min(1, share))}, 75%, ${Math.round(60 - 15 * Math.min(1, share))}%)`;

// The colours of `heat` between what its ends stand for.
function heatScale(id, low, high) {
  const bar = document.createElement("span");
  bar.className = "scale";
  bar.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(heat).join(", ")})`;
  document.getElementById(id)?.replaceChildren(`${low} `, bar, ` ${high}`);
}

function colourFigure(figure) {
  const style = getComputedStyle(root);
  const [text, back, line] = ["--text", "--back", "--line"].map((name) => style.getPropertyValue(name).trim());
  Object.assign(figure, { background_fill_color: back, border_fill_color: back, outline_line_color: line });
  figure.title.text_color = text;
  for (const axis of [...figure.below, ...figure.left]) {
    Object.assign(axis, { axis_label_text_color: text, major_label_text_color: text, axis_line_color: text, major_tick_line_color: text, minor_tick_line_color: null });
  }
  for (const grid of figure.center) if ("grid_line_color" in grid) grid.grid_line_color = line;
}

function chart(id, options, tips, draw) {
  const place = document.getElementById(id);
  if (!place) return null;
  const kept = charts.findIndex((each) => each.id === id);
  if (kept >= 0) charts.splice(kept, 1)[0].view?.remove(); // with its tooltips
  place.replaceChildren();
  const { wheel = "wheel_zoom", ...rest } = options;
  const figure = Plotting.figure({ width: Math.min(1550, place.clientWidth || 1150), tools: `pan,${wheel},box_zoom,reset,save`, active_scroll: null, ...rest });
  figure.toolbar.logo = null;
  const renderer = draw(figure);
  if (tips) figure.add_tools(new HoverTool({ tooltips: tips, renderers: [renderer] }));
  colourFigure(figure);
  colourLegends(figure);
  const found = { id, figure, source: renderer.data_source };
  charts.push(found);
  showing.push(Plotting.show(figure, place).then((view) => { found.view = view; }));
  return found;
}

// Legends in the colours of the page, below the chart, where they hide no line. A click on an item hides what it names.
function colourLegends(figure) {
  const style = getComputedStyle(root);
  const [text, back, line] = ["--text", "--back", "--line"].map((name) => style.getPropertyValue(name).trim());
  for (const each of figure.center.filter((part) => part.type === "Legend")) {
    figure.center = figure.center.filter((part) => part !== each);
    figure.add_layout(each, "below");
    const letters = Math.max(...each.items.map((item) => item.label.value?.length ?? 0));
    const across = Math.max(1, Math.floor(figure.width / (7.5 * letters + 50))); // pixels of an item
    figure.height += 26 * Math.ceil(each.items.length / across) + 10;
    Object.assign(each, { location: "top_left", orientation: "horizontal", ncols: across, background_fill_color: back, background_fill_alpha: 0.8, border_line_color: line, label_text_color: text, inactive_fill_color: back, click_policy: "mute", label_text_font_size: "12px" });
  }
}
