"use strict";
// Axes and bars of the sweep's own drawings.
sparsim.ticks = {
  time: { tickformat: "~s", ticksuffix: "s" },
  bytes: { tickformat: "~s", ticksuffix: "B" },
  bandwidth: { tickformat: "~s", ticksuffix: "B/s" },
  share: { tickformat: ".3~p" },
  percent: { tickformat: ".3~p" },
  number: { tickformat: ",.6~g" },
  count: { tickformat: "," },
};

sparsim.hovered = (column, which) => {
  const { tickformat, ticksuffix = "" } = sparsim.ticks[column.kind];
  const format = { "~s": ".4~s", ".3~p": ".4~p", ",.6~g": ",.4~g" }[tickformat] || tickformat;
  return `${sparsim.plain(column.label)} %{${which}:${format}}${ticksuffix}`;
};

sparsim.axis = (column, rows, value) => {
  const entry = rows.map((row) => value(column.key, row)).filter((item) => item !== null);
  const [low, high] = entry.reduce(([a, b], item) => [Math.min(a, item), Math.max(b, item)], [Infinity, -Infinity]);
  const log = low > 0 && high / low > 30;
  return {
    title: { text: sparsim.plain(column.label), standoff: 8 },
    type: log ? "log" : "linear",
    ...(log ? { dtick: high / low < 300 ? "D2" : 1 } : {}),
    gridcolor: "#E5E5E5", zeroline: false, automargin: true, ticks: "outside", tickcolor: "#999999",
    exponentformat: "SI", ...sparsim.ticks[column.kind],
  };
};

sparsim.layout = (xaxis, yaxis, height, more = {}) => ({
  height, xaxis, yaxis,
  autosize: true,
  font: { family: "system-ui, 'DejaVu Sans', Arial, sans-serif", size: 14, color: "#222222" },
  margin: { l: 60, r: 20, t: 16, b: 50 },
  hovermode: "closest",
  hoverlabel: { font: { size: 14 }, namelength: -1 },
  legend: { orientation: "h", x: 0, xref: "container", y: 0, yref: "container", yanchor: "bottom", traceorder: "normal" },
  ...more,
});

// The terms of some rows as stacked bars, the first on top.
sparsim.terms = (points, rows, value, columns) => {
  const constant = (phase) => points.values[phase.key] || points.constant[phase.key];
  const seconds = (phase, row) => {
    const entry = points.values[phase.key];
    return entry ? value(phase.key, row) : points.constant[phase.key];
  };
  const phases = points.phases.filter((phase) => constant(phase) !== undefined && rows.some((row) => seconds(phase, row)));
  const name = (row) => columns.slice(0, points.varied)
    .map((column) => sparsim.plain(sparsim.cell(column.kind, value(column.key, row)))).join(", ");
  const places = rows.map((_, place) => place);
  const traces = phases.map((phase) => ({
    type: "bar",
    orientation: "h",
    name: sparsim.plain(phase.label),
    y: places,
    x: rows.map((row) => seconds(phase, row)),
    marker: { color: phase.colour, line: { color: "#FFFFFF", width: 1 }, pattern: { shape: phase.pattern, size: 8 } },
    hovertemplate: "<b>%{fullData.name}</b><br>%{x:.4~s}s<extra></extra>",
  }));
  const xaxis = {
    title: { text: "iteration time", standoff: 8 }, gridcolor: "#E5E5E5", automargin: true, rangemode: "tozero",
    exponentformat: "SI", ...sparsim.ticks.time,
  };
  const yaxis = { tickvals: places, ticktext: rows.map(name), autorange: "reversed", automargin: true, showgrid: false };
  sparsim.draw(document.getElementById("terms"), {
    data: traces,
    layout: sparsim.layout(xaxis, yaxis, 130 + 28 * Math.max(1, rows.length), { barmode: "stack", bargap: 0.25 }),
  });
};
