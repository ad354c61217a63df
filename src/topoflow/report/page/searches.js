// Several searches: time against price of what each found.
"use strict";

const page = JSON.parse(document.getElementById("data").textContent);

function front() {
  const rows = page.searches;
  const data = { x: rows.map((row) => row.price), y: rows.map((row) => 1e3 * row.time), colour: rows.map((row) => page.fabrics[row.fabric]), name: rows.map((row) => row.name), took: rows.map((row) => time(row.time)), fabric: rows.map((row) => row.fabric) };
  const found = chart("front", { height: 420, x_axis_label: "price of the network [US dollars]", y_axis_label: "time of one training step [ms]" }, [["search", "@name"], ["fabric", "@fabric"], ["step", "@took"], ["price", "$@x{0,0}"]], (figure) => {
    figure.xaxis.formatter = new Bokeh.NumeralTickFormatter({ format: "0,0" });
    const best = rows.filter((row) => row.on_front).sort((a, b) => a.price - b.price);
    figure.line(best.map((row) => row.price), best.map((row) => 1e3 * row.time), { line_color: "#888888", line_dash: "dashed" });
    return figure.scatter({ field: "x" }, { field: "y" }, { source: new ColumnDataSource({ data }), size: 12, fill_color: { field: "colour" }, line_color: "#888888" });
  });
  if (!found) return;
  found.figure.add_tools(new TapTool());
  found.source.selected.change.connect(() => {
    const [first] = found.source.selected.indices;
    if (first !== undefined) location.href = rows[first].page;
  });
}

drawings.push(front);
