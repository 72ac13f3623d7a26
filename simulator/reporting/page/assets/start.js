"use strict";
// What happens when the page is loaded: tables first, then the plotting library, which is compressed in the page (gzip,
// base64; only where there are drawings), then one drawing after the other, so that the reader can scroll meanwhile.
sparsim.unpacked = (id) => {
  const text = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place += 1) bytes[place] = text.charCodeAt(place);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};

(async () => {
  const library = document.getElementById("library") && sparsim.unpacked("library");
  const data = JSON.parse(document.getElementById("data").textContent);
  document.querySelectorAll("table.sortable").forEach(sparsim.table);
  document.querySelectorAll("[data-chart]").forEach((place) => sparsim.chart(place, data.charts[place.dataset.chart]));
  if (data.points) sparsim.points(data.points);
  performance.mark("sparsim-tables");
  if (library) {
    const script = document.createElement("script");
    script.textContent = await library;
    document.body.append(script);
  }
  performance.mark("sparsim-library");
  for (const draw of sparsim.pending) {
    await draw();
    if (!performance.getEntriesByName("sparsim-first").length) performance.mark("sparsim-first");
    await new Promise((resolve) => { setTimeout(resolve); });
  }
  performance.mark("sparsim-drawn");
  document.body.dataset.drawn = "yes";
})();
