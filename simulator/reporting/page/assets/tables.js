"use strict";
// Tables of the page: sorted by a click on a heading, filtered by the columns that they name.
sparsim.compare = (a, b) => {
  const [x, y] = [Number(a), Number(b)];
  if (a === "" || b === "") return (a === "") - (b === "") || 0;
  if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  return a.localeCompare(b, "en", { numeric: true });
};

// A heading that sorts: by the mouse and by the keyboard.
sparsim.heading = (cell, sort) => {
  cell.tabIndex = 0;
  const act = () => {
    const down = cell.getAttribute("aria-sort") === "ascending";
    cell.parentElement.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    cell.setAttribute("aria-sort", down ? "descending" : "ascending");
    sort(down);
  };
  cell.addEventListener("click", act);
  cell.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      act();
    }
  });
};

sparsim.table = (table) => {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((cell, column) => {
    sparsim.heading(cell, (down) => {
      const key = (row) => row.cells[column].dataset.sort;
      const empty = (row) => key(row) === "";
      rows.sort((a, b) => {
        if (empty(a) || empty(b)) return empty(a) - empty(b);
        return (down ? -1 : 1) * sparsim.compare(key(a), key(b));
      });
      body.append(...rows);
    });
  });
  const chosen = new Map();
  const choices = document.createElement("div");
  choices.className = "choices";
  for (const key of table.dataset.choose.split(" ").filter(Boolean)) {
    const column = headings.findIndex((cell) => cell.dataset.key === key);
    const texts = [...new Set(rows.map((row) => row.cells[column].textContent))];
    const made = sparsim.chooser(headings[column].textContent, ["all", ...texts], 0, (picked) => {
      chosen.set(column, picked ? texts[picked - 1] : null);
      rows.forEach((row) => {
        row.hidden = ![...chosen].every(([place, text]) => text === null || row.cells[place].textContent === text);
      });
    });
    choices.append(made.around);
  }
  if (choices.children.length) table.parentElement.before(choices);
};
