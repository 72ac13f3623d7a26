"use strict";
// Charts of the page: drawn one after the other, and again when the reader chooses another view.
sparsim.config = { displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d"] };
sparsim.pending = [];
sparsim.NARROW = 600;

// On a narrow screen panels are below each other, and the legend has one entry per line.
sparsim.fitted = (place, plot) => {
  const layout = sparsim.themed(plot.layout);
  layout.width = place.clientWidth;
  layout.margin = { ...layout.margin, r: 40 }; // half of the last tick's words
  if (place.clientWidth >= sparsim.NARROW) return layout;
  const { stacks } = plot.layout.meta;
  const number = (panel) => (panel ? String(panel + 1) : "");
  layout.margin = { ...layout.margin, l: 40 };
  if (stacks.length > 1) {
    const gap = 0.16;
    const each = (1 - gap * (stacks.length - 1)) / stacks.length;
    stacks.forEach((panels, row) => {
      const ends = panels.map((panel) => plot.layout[`xaxis${number(panel)}`].domain);
      const [low, high] = [Math.min(...ends.map((end) => end[0])), Math.max(...ends.map((end) => end[1]))];
      const bottom = (stacks.length - 1 - row) * (each + gap);
      panels.forEach((panel) => {
        const x = layout[`xaxis${number(panel)}`];
        const y = layout[`yaxis${number(panel)}`];
        x.domain = x.domain.map((end) => (end - low) / (high - low));
        y.domain = [bottom, Math.min(1, bottom + each)];
        y.automargin = true;
        // A title that is longer than its panel is high goes on in a second line.
        if (y.title && y.title.text.length > 30) y.title = { ...y.title, text: y.title.text.replace(" (", "<br>(") };
      });
    });
    layout.height = 100 + 300 * stacks.length;
  }
  const entries = new Set(plot.data.filter((trace) => trace.showlegend !== false).map((trace) => trace.name)).size;
  layout.height += 20 * entries;
  return layout;
};

sparsim.draw = async (place, plot) => {
  const layout = sparsim.fitted(place, plot);
  await Plotly.react(place, sparsim.themed(plot.data), layout, sparsim.config);
  await sparsim.setTicks(place, layout);
  place.sparsimLayout = layout;
  sparsim.drawn.set(place, plot);
  if (place.sparsimListens) return;
  place.sparsimListens = true;
  place.on("plotly_relayout", (change) => {
    if (Object.keys(change).some((key) => /range/.test(key))) sparsim.setTicks(place, place.sparsimLayout);
  });
  place.on("plotly_restyle", () => sparsim.setTicks(place, place.sparsimLayout));
};

// The view in which every choice holds; where there is none (combinations that were skipped), the first that keeps
// what was chosen last.
sparsim.view = (chart, chosen, last) =>
  chart.views.find((view) => view.chosen.every((item, number) => item === chosen[number])) ||
  chart.views.find((view) => view.chosen[last] === chosen[last]);

sparsim.chart = (place, chart) => {
  const chosen = [...chart.views[chart.first].chosen];
  const selects = [];
  const show = (last) => {
    const view = sparsim.view(chart, chosen, last);
    view.chosen.forEach((item, number) => {
      chosen[number] = item;
      selects[number].select.value = String(selects[number].options.indexOf(item));
    });
    return sparsim.draw(place, view.plot);
  };
  const bar = place.parentElement.querySelector("[data-choices]");
  chart.choices.forEach((label, number) => {
    const options = [...new Set(chart.views.map((view) => view.chosen[number]))];
    if (options.length < 2) {
      selects.push({ select: {}, options });
      return;
    }
    const made = sparsim.chooser(label, options, options.indexOf(chosen[number]), (picked) => {
      chosen[number] = options[picked];
      show(number);
    });
    selects.push({ select: made.select, options });
    bar.append(made.around);
  });
  sparsim.pending.push(() => sparsim.draw(place, chart.views[chart.first].plot));
};
