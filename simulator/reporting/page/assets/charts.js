"use strict";
// Charts of the page: drawn one after the other, and again when the reader chooses another view.
sparsim.config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
sparsim.pending = [];

// On a narrow screen the legend has one entry per line, so that the drawing needs more height, and labels of bars keep
// their first line; the pointer shows the rest.
sparsim.fitted = (place, plot) => {
  if (place.clientWidth >= 600) return plot.layout;
  const entries = new Set(plot.data.filter((trace) => trace.showlegend !== false).map((trace) => trace.name)).size;
  const annotations = (plot.layout.annotations || []).map((label) => ({ ...label, text: label.text.split("<br>")[0] }));
  return { ...plot.layout, annotations, height: plot.layout.height + 20 * entries };
};

sparsim.draw = (place, plot) => Plotly.react(place, plot.data, sparsim.fitted(place, plot), sparsim.config);

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
    const made = sparsim.chooser(label, options, options.indexOf(chosen[number]), (picked) => {
      chosen[number] = options[picked];
      show(number);
    });
    selects.push({ select: made.select, options });
    bar.append(made.around);
  });
  sparsim.pending.push(() => sparsim.draw(place, chart.views[chart.first].plot));
};
