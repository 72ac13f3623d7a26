"use strict";
// Colours of the drawings: names of theme.css become what they are at the moment, in light or dark or on paper.
sparsim.looked = new Map();

sparsim.colour = (name) => {
  if (!sparsim.looked.has(name)) {
    const probe = document.createElement("span");
    probe.hidden = true;
    probe.style.color = name;
    document.body.append(probe);
    let found = getComputedStyle(probe).color;
    probe.remove();
    // A mix is told in parts of one, which the plotting library does not read.
    const parts = /^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.e-]+))?\)$/.exec(found);
    if (parts) {
      const [red, green, blue] = parts.slice(1, 4).map((part) => Math.round(255 * Number(part)));
      found = `rgba(${red}, ${green}, ${blue}, ${parts[4] === undefined ? 1 : parts[4]})`;
    }
    sparsim.looked.set(name, found);
  }
  return sparsim.looked.get(name);
};

sparsim.DATA = new Set(["x", "y", "z", "text", "customdata", "base", "ticktext", "tickvals"]);

sparsim.themed = (item) => {
  if (typeof item === "string") return /^(var|color-mix|light-dark)\(/.test(item) ? sparsim.colour(item) : item;
  if (Array.isArray(item)) return typeof item[0] === "number" && item.length > 2 ? item : item.map(sparsim.themed);
  if (item === null || typeof item !== "object") return item;
  return Object.fromEntries(
    Object.entries(item).map(([key, value]) => [key, sparsim.DATA.has(key) ? value : sparsim.themed(value)]));
};

// Everything is drawn again when the colours or the width of the page change.
sparsim.drawn = new Map();
sparsim.busy = Promise.resolve();
sparsim.redraw = () => {
  sparsim.busy = sparsim.busy.then(async () => {
    sparsim.looked.clear();
    for (const [place, plot] of sparsim.drawn) await sparsim.draw(place, plot);
  });
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", sparsim.redraw);
matchMedia("print").addEventListener("change", () => {
  document.querySelectorAll(".warnings details").forEach((part) => { part.open = true; }); // paper cannot be opened
  sparsim.redraw();
});
sparsim.width = innerWidth;
addEventListener("resize", () => {
  clearTimeout(sparsim.waiting);
  sparsim.waiting = setTimeout(() => {
    if (innerWidth === sparsim.width) return;
    sparsim.width = innerWidth;
    sparsim.redraw();
  }, 120);
});
