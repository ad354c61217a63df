// How a search went: times of its proposals and simulations, and what it accepted, over the proposals that it made.
"use strict";

const page = JSON.parse(document.getElementById("data").textContent);

function searched() {
  const { steps, simulated, best, colours } = page.history;
  const times = { height: 380, x_axis_label: "proposals of all chains", y_axis_label: "time of one training step [ms]" };
  const scaled = (values) => values.map((value) => (value === null ? NaN : 1e3 * value));
  const line = (figure, x, y, extra, look) => {
    const data = { x, y: scaled(y), took: y.map(time), ...extra };
    return figure.line({ field: "x" }, { field: "y" }, { source: new ColumnDataSource({ data }), line_width: 2, ...look });
  };
  const hover = (figure, renderer, what, more = []) => figure.add_tools(new HoverTool({ tooltips: [[what, "@took"], ["proposals", "@x{0,0}"], ...more], renderers: [renderer], mode: "mouse" }));
  chart("history", times, null, (figure) => {
    figure.xaxis.formatter = new Bokeh.NumeralTickFormatter({ format: "0,0" });
    const extra = { round: steps.round, accepted: steps.acceptance.map((share) => (share === null ? "-" : `${(100 * share).toFixed(1)} %`)) };
    const more = [["round", "@round"], ["accepted", "@accepted"]];
    hover(figure, line(figure, steps.proposals, steps.current, extra, { line_color: colours.current, line_width: 1, legend_label: "coldest chain, as screened" }), "coldest chain", more);
    hover(figure, line(figure, steps.proposals, steps.best, extra, { line_color: colours.best, legend_label: "best of the round, as screened" }), "best of the round", more);
    const data = { x: simulated.proposals, y: scaled(simulated.time), took: simulated.time.map(time), round: simulated.round };
    hover(figure, figure.scatter({ field: "x" }, { field: "y" }, { source: new ColumnDataSource({ data }), marker: "dash", size: 12, line_width: 2, line_color: colours.simulated, legend_label: "simulated candidates" }), "candidate, simulated", [["round", "@round"]]);
    const kept = line(figure, best.proposals, best.time, { round: best.round, kept: best.topology }, { line_color: colours.simulated, line_dash: "dashed", legend_label: "start, and best so far (simulated)" });
    const ends = figure.scatter({ field: "x" }, { field: "y" }, { source: kept.data_source, marker: "diamond", size: 12, fill_color: colours.simulated, line_color: colours.simulated });
    hover(figure, ends, "best so far, simulated", [["round", "@round"], ["topology", "@kept"]]);
    return kept;
  });
}

function accepted() {
  const { steps, colours } = page.history;
  const data = { x: steps.proposals, y: steps.acceptance.map((share) => (share === null ? NaN : 100 * share)), rate: steps.rate.map((rate) => (rate === null ? "-" : Math.round(rate).toLocaleString("en"))) };
  const tips = [["accepted", "@y{0.0} %"], ["proposals", "@x{0,0}"], ["evaluations per second", "@rate"]];
  chart("acceptance", { height: 220, x_axis_label: "proposals of all chains", y_axis_label: "accepted [%]" }, tips, (figure) => {
    figure.xaxis.formatter = new Bokeh.NumeralTickFormatter({ format: "0,0" });
    return figure.line({ field: "x" }, { field: "y" }, { source: new ColumnDataSource({ data }), line_color: colours.best, line_width: 2 });
  });
}

drawings.push(searched, accepted);
