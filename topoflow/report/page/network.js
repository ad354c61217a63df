// Networks: links coloured by how much of their capacity the step uses.
"use strict";

async function network() {
  if (!page.networks.length) return;
  const chosen = page.networks[document.getElementById("network-world").value];
  const { x, y, names, source, target, load, carried } = await unpack(chosen.links);
  const heat = (share) => `hsl(${Math.round(210 - 200 * share)}, 75%, ${Math.round(60 - 15 * share)}%)`;
  const data = { x0: [], y0: [], x1: [], y1: [], colour: [], ends: [], used: [], carried: [], width: [] };
  source.forEach((from, link) => {
    const to = target[link];
    const [dx, dy] = [x[to] - x[from], y[to] - y[from]];
    const bend = 0.01; // both links of a pair are seen
    data.x0.push(x[from] + bend * dy); data.y0.push(y[from] - bend * dx); data.x1.push(x[to] + bend * dy); data.y1.push(y[to] - bend * dx);
    data.colour.push(heat(Math.min(1, load[link]))); data.ends.push(`${names[from]} to ${names[to]}`);
    data.used.push(`${(100 * load[link]).toFixed(1)} %`); data.carried.push(bytes(carried[link])); data.width.push(0.6 + 3 * Math.min(1, load[link]));
  });
  chart("network", { height: 640 }, [["link", "@ends"], ["carried", "@carried"], ["of what it could", "@used"]], (figure) => {
    Object.assign(figure.xaxis, { visible: false }); Object.assign(figure.yaxis, { visible: false });
    figure.xgrid.visible = false; figure.ygrid.visible = false;
    const links = figure.segment({ field: "x0" }, { field: "y0" }, { field: "x1" }, { field: "y1" }, { source: new ColumnDataSource({ data }), line_color: { field: "colour" }, line_width: { field: "width" } });
    const nodes = new ColumnDataSource({ data: { x, y, names } });
    const points = figure.scatter({ field: "x" }, { field: "y" }, { source: nodes, size: Math.max(3, Math.min(12, 400 / x.length)), fill_color: page.kinds.compute, line_color: "#ffffff" });
    figure.add_tools(new HoverTool({ tooltips: [["node", "@names"]], renderers: [points] }));
    return links;
  });
}

options("network-world", page.networks.map((each, n) => [n, each.label]), network);
drawings.push(network);
