"use strict";
// All points of a sweep: filters, a plot of any column against any other, the terms of the first rows, and the table.
sparsim.PAGE = 25;
sparsim.BARS = 12;
sparsim.PRINTED = 7;

sparsim.points = (points) => {
  const value = (key, row) => {
    const entry = points.values[key];
    return entry.plain ? entry.plain[row] : entry.levels[entry.codes[row]];
  };
  const different = (key) => {
    const entry = points.values[key];
    return entry.levels || [...new Set(entry.plain)];
  };
  const columns = points.columns;
  const kinds = new Map(columns.map((column) => [column.key, column.kind]));
  const labels = new Map(columns.map((column) => [column.key, column.label]));
  const state = { filters: new Map(), rows: [], page: 0, sort: null, down: false, x: 0, y: 0 };
  const all = Array.from({ length: points.count }, (_, row) => row);

  const filter = () => {
    const tests = [...state.filters].filter(([, test]) => test).map(([key, test]) => (row) => test(value(key, row)));
    state.rows = all.filter((row) => tests.every((test) => test(row)));
    if (state.sort !== null) {
      const key = state.sort;
      const sign = state.down ? -1 : 1;
      const text = kinds.get(key) === "text";
      state.rows.sort((a, b) => {
        const [x, y] = [value(key, a), value(key, b)];
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (text ? sparsim.compare(x, y) : x - y);
      });
    }
    state.page = 0;
    const matching = document.getElementById("matching");
    matching.textContent = `${state.rows.length.toLocaleString("en-US")} of ${points.count.toLocaleString("en-US")} points`;
  };

  // On paper there is room only for the varied keys and the first results.
  const looks = columns.map((column, place) => column.kind + (place >= points.varied + sparsim.PRINTED ? " extra" : ""));

  const row = (number) => {
    const made = document.createElement("tr");
    columns.forEach((column, place) => {
      const cell = document.createElement("td");
      cell.className = looks[place];
      cell.textContent = sparsim.cell(column.kind, value(column.key, number));
      made.append(cell);
    });
    return made;
  };

  const shown = () => state.rows.slice(state.page * sparsim.PAGE, (state.page + 1) * sparsim.PAGE);

  const list = () => {
    const rows = shown();
    document.querySelector("#rows tbody").replaceChildren(...rows.map(row));
    const first = state.page * sparsim.PAGE;
    document.getElementById("shown").textContent =
      rows.length ? `rows ${first + 1} to ${first + rows.length} of ${state.rows.length}` : "no point matches";
    // Points that are the same, such as dense at every density, have one bar.
    const times = (number) => JSON.stringify(points.phases.map((phase) => points.values[phase.key] && value(phase.key, number)));
    const distinct = rows.filter((number, place) =>
      rows.findIndex((other) => value("method", other) === value("method", number) && times(other) === times(number)) === place);
    sparsim.terms(points, distinct.slice(0, sparsim.BARS), value, columns);
  };

  // An axis of the plot: its kind of values says what its ticks are; columns of words have a place for each word.
  const axis = (column) => {
    const held = state.rows.map((row) => value(column.key, row)).filter((item) => item !== null);
    const title = { text: sparsim.plain(column.label), standoff: 8 };
    const look = { ...points.look, title };
    if (column.kind === "text") return { ...look, type: "category" };
    const [low, high] = held.reduce(([a, b], item) => [Math.min(a, item), Math.max(b, item)], [Infinity, -Infinity]);
    const log = low > 0 && high / low > 15;
    return { ...look, type: log ? "log" : "linear", ...(log || low < 0 ? {} : { rangemode: "tozero" }) };
  };

  const scatter = () => {
    const [x, y] = [columns[state.x], columns[state.y]];
    const series = new Map();
    for (const number of state.rows.filter((row) => value(x.key, row) !== null && value(y.key, row) !== null)) {
      const method = value("method", number);
      if (!series.has(method)) series.set(method, []);
      series.get(method).push(number);
    }
    const held = (column) => (number) => {
      const item = value(column.key, number);
      return column.kind === "text" ? sparsim.plain(sparsim.cell("text", item)) : item;
    };
    const traces = [...series].map(([method, rows]) => ({
      type: "scatter",
      mode: "markers",
      name: sparsim.plain(method),
      x: rows.map(held(x)),
      y: rows.map(held(y)),
      customdata: rows,
      marker: {
        size: 7, color: points.palette[method].colour, opacity: 0.8,
        symbol: points.palette[method].stroke === "-" ? "circle" : "circle-open",
      },
      text: rows.map((number) => [...columns.slice(0, points.varied), x, y]
        .filter((column, place, shown) => shown.indexOf(column) === place)
        .map((column) => sparsim.plain(`${column.label} ${sparsim.cell(column.kind, value(column.key, number))}`))
        .join("<br>")),
      hovertemplate: "<b>%{fullData.name}</b><br>%{text}<extra></extra>",
    }));
    const level = points.references[y.key];
    const shapes = level ? [{
      type: "line", xref: "paper", x0: 0, x1: 1, y0: level.value, y1: level.value, layer: "below",
      line: { color: "var(--reference)", width: 3 },
    }] : [];
    if (level) {
      traces.push({
        type: "scatter", mode: "lines", name: level.label, x: [null], y: [null], line: { color: "var(--reference)", width: 3 },
      });
    }
    sparsim.draw(document.getElementById("scatter"), {
      data: traces,
      layout: {
        ...points.layout, xaxis: axis(x), yaxis: axis(y), shapes,
        meta: {
          kinds: Object.fromEntries([["xaxis", x], ["yaxis", y]].filter(([, column]) => column.kind !== "text")
            .map(([name, column]) => [name, column.kind])),
          stacks: [[0]],
        },
      },
    });
  };

  const refresh = () => {
    filter();
    list();
    if (globalThis.Plotly && points.y) scatter();
  };

  const bar = document.getElementById("filters");
  columns.slice(0, points.varied).forEach((column) => {
    const found = different(column.key);
    const texts = (item) => sparsim.cell(column.kind, item);
    if (column.kind === "text") {
      const made = sparsim.chooser(column.label, ["all", ...found.map(texts)], 0, (picked) => {
        state.filters.set(column.key, picked ? (item) => item === found[picked - 1] : null);
        refresh();
      });
      made.select.dataset.filter = column.key;
      bar.append(made.around);
      return;
    }
    const levels = found.filter((item) => item !== null).sort((a, b) => a - b);
    const range = [0, levels.length - 1];
    ["from", "to"].forEach((word, end) => {
      const made = sparsim.chooser(end ? "to" : `${column.label} from`, levels.map(texts), range[end], (picked) => {
        range[end] = picked;
        const whole = range[0] === 0 && range[1] === levels.length - 1;
        state.filters.set(
          column.key, whole ? null : (item) => item !== null && item >= levels[range[0]] && item <= levels[range[1]]);
        refresh();
      });
      made.select.dataset.filter = `${column.key}:${word}`;
      bar.append(made.around);
    });
  });

  state.x = columns.findIndex((column) => column.key === points.x);
  state.y = columns.findIndex((column) => column.key === points.y);
  ["x", "y"].forEach((which) => {
    const offered = columns.filter((column) => which === "x" || column.kind !== "text");
    const made = sparsim.chooser(
      which === "x" ? "horizontal axis" : "vertical axis", offered.map((column) => labels.get(column.key)),
      offered.indexOf(columns[state[which]]), (picked) => {
        state[which] = columns.indexOf(offered[picked]);
        scatter();
      });
    made.select.dataset.plotted = which;
    document.getElementById("plotted").append(made.around);
  });

  const head = document.createElement("tr");
  columns.forEach((column, place) => {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.className = looks[place];
    cell.textContent = column.label;
    cell.title = column.about;
    cell.dataset.key = column.key;
    sparsim.heading(cell, (down) => {
      [state.sort, state.down] = [column.key, down];
      filter();
      list();
    });
    head.append(cell);
  });
  document.querySelector("#rows thead").append(head);

  const pager = document.getElementById("pager");
  const status = document.createElement("span");
  status.id = "shown";
  const turn = (label, step) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.addEventListener("click", () => {
      const last = Math.max(0, Math.ceil(state.rows.length / sparsim.PAGE) - 1);
      state.page = Math.min(last, Math.max(0, state.page + step));
      list();
    });
    return button;
  };
  pager.append(turn("previous", -1), status, turn("next", 1));
  filter();
  list();
  if (points.y) sparsim.pending.push(scatter);
};
