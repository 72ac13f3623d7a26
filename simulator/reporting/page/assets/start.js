"use strict";
// What the page does when it has come: tables at once, then the plotting library, which lies packed in the page (gzip,
// base64), and one drawing after the other, so that the reader can scroll meanwhile.
sparsim.unpacked = (id) => {
  const text = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place += 1) bytes[place] = text.charCodeAt(place);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};

(async () => {
  const library = sparsim.unpacked("library");
  const data = JSON.parse(document.getElementById("data").textContent);
  document.querySelectorAll("table.sortable").forEach(sparsim.table);
  document.querySelectorAll("[data-chart]").forEach((place) => sparsim.chart(place, data.charts[place.dataset.chart]));
  if (data.points) sparsim.points(data.points);
  performance.mark("sparsim-tables");
  const script = document.createElement("script");
  script.textContent = await library;
  document.body.append(script);
  performance.mark("sparsim-library");
  for (const draw of sparsim.pending) {
    await draw();
    if (!performance.getEntriesByName("sparsim-first").length) performance.mark("sparsim-first");
    await new Promise((resolve) => { setTimeout(resolve); });
  }
  performance.mark("sparsim-drawn");
  document.body.dataset.drawn = "yes";
})();
