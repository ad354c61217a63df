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
    width: load.map((share) => 0.6 + 3 * Math.min(1, share)),
  };
}

async function network() {
  if (!page.networks.length) return;
  const chosen = page.networks[document.getElementById("network-world").value];
  const links = await unpack(chosen.links);
  const over = chosen.over && (await unpack(chosen.over));
  const { x, y, names, source, target } = links;
  const data = { x0: [], y0: [], x1: [], y1: [], ends: [], ...loadColumns(links) };
  source.forEach((from, link) => {
    const to = target[link];
    const [dx, dy] = [x[to] - x[from], y[to] - y[from]];
    const bend = 0.01; // both links of a pair are seen
    data.x0.push(x[from] + bend * dy); data.y0.push(y[from] - bend * dx); data.x1.push(x[to] + bend * dy); data.y1.push(y[to] - bend * dx);
    data.ends.push(`${names[from]} to ${names[to]}`);
  });
  const found = chart("network", { height: 640 }, [["link", "@ends"], ["carried", "@carried"], ["of what it could", "@used"]], (figure) => {
    Object.assign(figure.xaxis, { visible: false }); Object.assign(figure.yaxis, { visible: false });
    figure.xgrid.visible = false; figure.ygrid.visible = false;
    const lines = figure.segment({ field: "x0" }, { field: "y0" }, { field: "x1" }, { field: "y1" }, { source: new ColumnDataSource({ data }), line_color: { field: "colour" }, line_width: { field: "width" } });
    const nodes = new ColumnDataSource({ data: { x, y, names } });
    const points = figure.scatter({ field: "x" }, { field: "y" }, { source: nodes, size: Math.max(3, Math.min(12, 400 / x.length)), fill_color: page.kinds.compute, line_color: "#ffffff" });
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
    found.source.data = { ...found.source.data, ...loadColumns(loadOf(links, over, part)) };
  };
  showLoad();
}

function scaleOfLoad() {
  const bar = document.createElement("span");
  bar.className = "scale";
  bar.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(heat).join(", ")})`;
  document.getElementById("network-scale")?.replaceChildren("0 % ", bar, " 100 % of what a link can carry");
}

options("network-world", page.networks.map((each, n) => [n, each.label]), network);
document.getElementById("network-time")?.addEventListener("input", () => showLoad());
scaleOfLoad();
drawings.push(network);
