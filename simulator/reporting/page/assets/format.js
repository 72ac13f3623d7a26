"use strict";
// Values as text, by the kind of their column, as in the other tables of the page (reporting/wording/values.py).
const sparsim = {};

sparsim.digits = (value, count) => String(Number(value.toPrecision(count)));

sparsim.scaled = (value, steps, unit, count = 4) => {
  for (const [limit, name] of steps) {
    if (Math.abs(value) >= limit) return `${sparsim.digits(value / limit, count)} ${name}`;
  }
  return `${sparsim.digits(value, count)} ${unit}`;
};

sparsim.formats = {
  text: (value) => String(value),
  time: (value) => {
    if (value === 0) return "0 s";
    for (const [limit, unit, factor] of [[1e-6, "ns", 1e9], [1e-3, "us", 1e6], [1, "ms", 1e3]]) {
      if (Math.abs(value) < limit) return `${sparsim.digits(value * factor, 4)} ${unit}`;
    }
    return `${sparsim.digits(value, 4)} s`;
  },
  bytes: (value) => sparsim.scaled(value, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]], "B"),
  bandwidth: (value) =>
    sparsim.scaled(8 * value, [[1e12, "Tbit/s"], [1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]], "bit/s"),
  size: (value) => sparsim.scaled(value, [[1e9, "G"], [1e6, "M"], [1e3, "k"]], "").trim(),
  share: (value) => `${sparsim.digits(100 * value, 4)} %`,
  percent: (value) => `${sparsim.digits(100 * value, 3)} %`,
  error: (value) => `${value < 0 ? "" : "+"}${(100 * value).toFixed(1)} %`,
  number: (value) => sparsim.digits(value, 4),
  count: (value) => value.toLocaleString("en-US", { maximumFractionDigits: 0 }),
  yes: (value) => (value ? "yes" : "no"),
};

sparsim.cell = (kind, value) => (value === null || value === undefined ? "–" : sparsim.formats[kind](value));

// Plotly reads some HTML in what it shows: nothing of a name is markup.
sparsim.plain = (text) =>
  String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");

sparsim.chooser = (label, options, chosen, changed) => {
  const select = document.createElement("select");
  options.forEach((option, place) => {
    const made = document.createElement("option");
    made.value = String(place);
    made.textContent = option;
    select.append(made);
  });
  select.value = String(chosen);
  select.addEventListener("change", () => changed(Number(select.value)));
  const around = document.createElement("label");
  around.append(label, select);
  return { around, select };
};
