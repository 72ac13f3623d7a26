"use strict";
// What the page does when it has come: tables at once, then one drawing after the other, so that the reader can scroll.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  document.querySelectorAll("table.sortable").forEach(sparsim.table);
  document.querySelectorAll("[data-chart]").forEach((place) => sparsim.chart(place, data.charts[place.dataset.chart]));
  if (data.points) sparsim.points(data.points);
  const next = () => {
    const draw = sparsim.pending.shift();
    if (!draw) {
      performance.mark("sparsim-drawn");
      document.body.dataset.drawn = "yes";
      return;
    }
    Promise.resolve(draw()).then(() => setTimeout(next));
  };
  next();
})();
