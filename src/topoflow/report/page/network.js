// Networks: links coloured by how much of their capacity is used, in the whole step or in a part of it.
"use strict";

let showLoad = () => {}; // of the network that is drawn, in the chosen part of the step

// What every link carries and its share of what it could, in a part of the step, from 1; 0: in all of it.
function loadOf({ load, carried }, over, part) {
  if (!part) return { load, carried };
  const shares = over.of.map((list) => over.lists[list][part - 1] / over.steps);
  const possible = (link) => (load[link] ? carried[link] / load[link] / over.parts : 0); // B, in a part
  return { load: shares, carried: shares.map((share, link) => share * possible(link)) };
}

// Columns of the links that their load decides.
function loadColumns({ load, carried }) {
  return {
    colour: load.map(heat),
    used: load.map((share) => `${(100 * share).toFixed(1)} %`),
    carried: carried.map((amount) => bytes(amount && +amount.toPrecision(4))),
    alpha: load.map((share) => 0.35 + 0.65 * Math.min(1, share)), // idle links do not hide others
    width: load.map((share) => 0.6 + 3 * Math.min(1, share)),
  };
}

// Points of links: quadratic Bezier curves, as layout.py says.
function curves({ x, y, source, target, bend }) {
  const [xs, ys, points] = [[], [], source.length > 2000 ? 9 : 25];
  source.forEach((from, link) => {
    const to = target[link];
    const [dx, dy] = [x[to] - x[from], y[to] - y[from]];
    const [cx, cy] = [(x[from] + x[to]) / 2 + bend[link] * dy, (y[from] + y[to]) / 2 - bend[link] * dx];
    const at = (a, c, b) => Array.from({ length: points }, (_, n) => n / (points - 1)).map((t) => (1 - t) ** 2 * a + 2 * t * (1 - t) * c + t ** 2 * b);
    xs.push(at(x[from], cx, x[to])); ys.push(at(y[from], cy, y[to]));
  });
  return { xs, ys };
}

async function network() {
  if (!page.networks.length) return;
  const chosen = page.networks[document.getElementById("network-world").value];
  const links = await unpack(chosen.links);
  const over = chosen.over && (await unpack(chosen.over));
  const { x, y, names, proportions } = links;
  const data = { ...curves(links), ends: links.source.map((from, link) => `${names[from]} to ${names[links.target[link]]}`), ...loadColumns(links) };
  const found = chart("network", { height: 640, match_aspect: proportions, title: chosen.label }, [["link", "@ends"], ["carried", "@carried"], ["of what it could", "@used"]], (figure) => {
    Object.assign(figure.xaxis, { visible: false }); Object.assign(figure.yaxis, { visible: false });
    figure.xgrid.visible = false; figure.ygrid.visible = false;
    const lines = figure.multi_line({ field: "xs" }, { field: "ys" }, { source: new ColumnDataSource({ data }), line_color: { field: "colour" }, line_alpha: { field: "alpha" }, line_width: { field: "width" } });
    const nodes = new ColumnDataSource({ data: { x, y, names } });
    const points = figure.scatter({ field: "x" }, { field: "y" }, { source: nodes, size: Math.max(3, Math.min(12, 400 / x.length)), fill_color: page.kinds.compute, line_color: x.length > 300 ? null : "#ffffff" });
    figure.add_tools(new HoverTool({ tooltips: [["node", "@names"]], renderers: [points] }));
    return lines;
  });
  const parts = over ? over.parts : 0;
  const slider = document.getElementById("network-time");
  Object.assign(slider, { max: parts, disabled: !parts });
  showLoad = () => {
    const part = +slider.value; // never above its maximum
    const [from, to] = [part - 1, part].map((edge) => (over ? time((over.end * edge) / parts) : ""));
    const text = part ? `${from} to ${to}` : "whole step";
    document.getElementById("network-part").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    found.figure.title.text = `${chosen.label}: ${text}`; // on paper, which has no controls
    found.source.data = { ...found.source.data, ...loadColumns(loadOf(links, over, part)) };
  };
  showLoad();
}

options("network-world", page.networks.map((each, n) => [n, each.label]), network);
document.getElementById("network-time")?.addEventListener("input", () => showLoad());
heatScale("network-scale", "0 %", "100 % of a link");
drawings.push(network);
