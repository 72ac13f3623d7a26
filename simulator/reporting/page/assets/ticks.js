"use strict";
// Ticks of axes: 1, 2 and 5 times powers of ten, at least two, as many as have room, with the words of the tables.
sparsim.step = (span, most) => {
  const power = 10 ** Math.floor(Math.log10(span) - 1);
  return [1, 2, 5, 10, 20, 50, 100].map((item) => item * power).find((step) => span / step <= most) || span;
};

sparsim.linear = (low, high, most) => {
  const step = sparsim.step(high - low, Math.max(2, most - 1));
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, place) => Number(((first + place) * step).toPrecision(12)));
};

sparsim.logarithmic = (low, high, most) => {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const item of [1, 2, 5]) ticks.push(Number(`${item}e${power}`));
  }
  const inside = ticks.filter((tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9));
  const powers = inside.filter((tick) => tick.toExponential().startsWith("1e"));
  if (inside.length < 3) return sparsim.linear(low, high, most);
  const chosen = powers.length > 2 || inside.length > most && powers.length > 1 ? powers : inside;
  return sparsim.thinned(chosen, most);
};

// At most so many of some ticks, at equal steps, the last one included.
sparsim.thinned = (ticks, most) => {
  const step = Math.ceil(ticks.length / most);
  return ticks.filter((_, place) => (ticks.length - 1 - place) % step === 0);
};

sparsim.words = (kind, value) =>
  kind === "number"
    ? value.toLocaleString("en-US", { maximumSignificantDigits: 6 })
    : sparsim.cell(kind, Number(value.toPrecision(6)));

// A long name in lines of some fifteen characters, broken at spaces and hyphens.
sparsim.broken = (text) => text.split("<br>").join(" ").split(/(?<=[- ])/).reduce((lines, part) => {
  const last = lines[lines.length - 1];
  if (last && (last + part).trim().length <= 15) return [...lines.slice(0, -1), last + part];
  return [...lines, part];
}, []).join("<br>");

sparsim.pen = document.createElement("canvas").getContext("2d");
sparsim.textWidth = (text) => {
  sparsim.pen.font = "14px system-ui, 'DejaVu Sans', Arial, sans-serif";
  return sparsim.pen.measureText(text).width;
};

// As many ticks as have room: side by side on a horizontal axis, a line each on a vertical one.
sparsim.roomy = (make, axis, horizontal) => {
  for (let most = horizontal ? 9 : Math.max(2, Math.min(8, Math.floor(axis._length / 34))); ; most -= 1) {
    const made = make(most);
    const places = made.tickvals.map((tick) => axis.d2p(tick));
    const widths = made.ticktext.map(sparsim.textWidth);
    const apart = places.every((place, number) =>
      !number || Math.abs(place - places[number - 1]) >= (widths[number] + widths[number - 1]) / 2 + 10);
    if (most <= 2 || !horizontal || apart) return made;
  }
};

sparsim.ticks = (axis, given, kind, horizontal) => {
  if (given.tickvals) {
    const places = given.tickvals.map((_, place) => place);
    return sparsim.roomy((most) => {
      const left = sparsim.thinned(places, horizontal ? Math.max(2, most * 2 - 2) : 40);
      const narrow = !horizontal && innerWidth < sparsim.NARROW;
      const words = (text) => (narrow ? sparsim.broken(text) : text);
      return {
        tickvals: left.map((place) => given.tickvals[place]), ticktext: left.map((place) => words(given.ticktext[place])),
      };
    }, axis, horizontal);
  }
  const log = axis.type === "log";
  // Bandwidths are held in bytes per second and told in bits.
  const unit = kind === "bandwidth" ? 8 : 1;
  const [low, high] = [...axis.range].map((end) => (log ? 10 ** end : end) * unit).sort((a, b) => a - b);
  if (!(high > low)) return null;
  return sparsim.roomy((most) => {
    const tickvals = (log ? sparsim.logarithmic : sparsim.linear)(low, high, most)
      .filter((tick) => kind !== "count" || Number.isInteger(tick)).map((tick) => tick / unit);
    return { tickvals, ticktext: tickvals.map((tick) => sparsim.words(kind, tick)) };
  }, axis, horizontal);
};

// The ticks of all axes of a drawing, after the library has chosen their ranges.
sparsim.setTicks = (place, layout) => {
  const update = {};
  const kinds = layout.meta.kinds || {}; // the library removes what is empty
  for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
    const axis = place._fullLayout[name];
    const kind = kinds[name];
    if (!axis || (!kind && !(layout[name].tickvals && layout[name].ticktext))) continue;
    const found = sparsim.ticks(axis, layout[name], kind, name.startsWith("x"));
    if (found && name.startsWith("x")) found.tickangle = 0; // they were chosen to fit
    if (found) Object.entries(found).forEach(([key, value]) => { update[`${name}.${key}`] = value; });
  }
  return Object.keys(update).length ? Plotly.relayout(place, update) : undefined;
};
