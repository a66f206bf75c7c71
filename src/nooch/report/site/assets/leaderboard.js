// A click on a column sorts the models by it; the comparison with the row above is of the first order only.
"use strict";
(() => {
  const table = document.getElementById("board"), body = table.tBodies[0];
  const headers = [...table.tHead.rows[0].cells], compared = headers.length - 1;
  const value = (row, column) => {
    const cell = row.cells[column];
    if (!("value" in cell.dataset)) return cell.textContent.trim().toLowerCase();
    return cell.dataset.value === "" ? Infinity : Number(cell.dataset.value);
  };
  headers.forEach((header, column) => {
    if (column === compared) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.textContent = header.textContent;
    header.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = header.getAttribute("aria-sort") === "ascending";
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => {
        const [first, second] = [value(a, column), value(b, column)];
        const order = first < second ? -1 : first > second ? 1 : 0;
        return down && first !== Infinity && second !== Infinity ? -order : order;
      });
      body.replaceChildren(...rows);
      const first = column === 1 && !down;
      for (const row of rows) row.cells[compared].style.visibility = first ? "" : "hidden";
    });
  });
})();
