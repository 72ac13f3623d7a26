"use strict";
// The terms of some rows of a sweep as bars, the first on top; drawn as `drawings/term_bars.py` draws those of runs.
sparsim.svg = (name, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.append(...children);
  return made;
};

sparsim.element = (name, className, ...children) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
};

sparsim.percent = (share) => `${(100 * share).toFixed(3)}%`;

sparsim.titled = (node, text) => {
  const title = sparsim.svg("title", {});
  title.textContent = text;
  node.append(title);
  return node;
};

sparsim.terms = (points, rows, value, columns) => {
  const seconds = (phase, row) => {
    const entry = points.values[phase.key];
    return (entry ? value(phase.key, row) : points.constant[phase.key]) || 0;
  };
  const phases = points.phases.filter((phase) => rows.some((row) => seconds(phase, row)));
  const sums = rows.map((row) => phases.reduce((sum, phase) => sum + seconds(phase, row), 0));
  const high = 1.01 * Math.max(...sums, 1e-12);
  const ticks = sparsim.linear(0, high, 6);
  const names = columns.slice(0, points.varied);
  const lanes = rows.map((row, place) => {
    const name = names.map((column) => sparsim.cell(column.kind, value(column.key, row))).join(", ");
    const bar = sparsim.svg("svg", { class: "strip", role: "img", "aria-label": name }, ...ticks.map((tick) =>
      sparsim.svg("line", { class: "grid", x1: sparsim.percent(tick / high), x2: sparsim.percent(tick / high), y1: 0, y2: "100%" })));
    let at = 0;
    phases.forEach((phase) => {
      const own = seconds(phase, row);
      if (!own) return;
      const part = sparsim.svg("rect", {
        class: phase.look, x: sparsim.percent(at / high), width: sparsim.percent(own / high), height: "100%",
      });
      bar.append(sparsim.titled(part, `${phase.label}: ${sparsim.cell("time", own)}`));
      at += own;
    });
    const words = sparsim.element("p", "", sparsim.element("span", "name", name), " ",
      sparsim.element("span", "value", sparsim.cell("time", sums[place])));
    return sparsim.element("div", "lane tight", words, bar);
  });
  const axis = sparsim.svg("svg", { class: "axis", "aria-hidden": "true" }, ...ticks.map((tick) => {
    const share = tick / high;
    const text = sparsim.svg("text", {
      x: sparsim.percent(share), y: 14, "text-anchor": share < 0.05 ? "start" : share > 0.95 ? "end" : "middle",
    });
    text.textContent = sparsim.cell("time", tick);
    return text;
  }));
  const legend = sparsim.element("ul", "legend", ...phases.map((phase) => sparsim.element("li", "",
    sparsim.svg("svg", { "aria-hidden": "true" }, sparsim.svg("rect", { class: phase.look, width: "100%", height: "100%" })),
    phase.label)));
  document.getElementById("terms").replaceChildren(...lanes, axis, legend);
};
