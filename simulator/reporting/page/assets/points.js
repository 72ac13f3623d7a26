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
  const numeric = columns.filter((column) => column.kind !== "text");
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
    return globalThis.Plotly && sparsim.terms(points, rows.slice(0, sparsim.BARS), value, columns);
  };

  const scatter = () => {
    const [x, y] = [numeric[state.x], numeric[state.y]];
    const series = new Map();
    for (const number of state.rows) {
      const method = value("method", number);
      if (!series.has(method)) series.set(method, []);
      series.get(method).push(number);
    }
    const traces = [...series].map(([method, rows]) => ({
      type: "scatter",
      mode: "markers",
      name: sparsim.plain(method),
      x: rows.map((number) => value(x.key, number)),
      y: rows.map((number) => value(y.key, number)),
      customdata: rows,
      marker: {
        size: 6, color: points.palette[method].colour, opacity: 0.75,
        symbol: points.palette[method].stroke === "-" ? "circle" : "circle-open",
      },
      text: rows.map((number) => columns.slice(0, points.varied)
        .map((column) => sparsim.plain(`${column.label} ${sparsim.cell(column.kind, value(column.key, number))}`))
        .join("<br>")),
      hovertemplate: `<b>%{fullData.name}</b><br>%{text}<br>${sparsim.hovered(x, "x")}<br>${sparsim.hovered(y, "y")}` +
        "<extra></extra>",
    }));
    sparsim.draw(document.getElementById("scatter"), {
      data: traces,
      layout: sparsim.layout(sparsim.axis(x, state.rows, value), sparsim.axis(y, state.rows, value), 440),
    });
  };

  const refresh = () => {
    filter();
    list();
    if (globalThis.Plotly) scatter();
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

  const found = (keys) => Math.max(0, numeric.findIndex((column) => keys.includes(column.key)));
  state.x = found(columns.slice(0, points.varied).filter((column) => column.kind !== "text").map((c) => c.key).slice(0, 1));
  state.y = found(["iteration_time_s"]);
  ["x", "y"].forEach((which) => {
    const made = sparsim.chooser(
      which === "x" ? "horizontal axis" : "vertical axis", numeric.map((column) => labels.get(column.key)), state[which], (picked) => {
        state[which] = picked;
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
  sparsim.pending.push(list, scatter);
};
