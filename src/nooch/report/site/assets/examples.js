// The page Examples: one task or one kind alone; without this script everything is shown.
"use strict";
(() => {
  const task = document.getElementById("task"), kind = document.getElementById("kind");
  function filter() {
    document.querySelectorAll(".example-task").forEach((one) => { one.hidden = task.value !== "" && one.dataset.task !== task.value; });
    document.querySelectorAll(".example-group").forEach((one) => { one.hidden = kind.value !== "" && one.dataset.kind !== kind.value; });
  }
  for (const one of [task, kind]) one.addEventListener("change", filter);
  document.getElementById("pick").addEventListener("submit", (event) => event.preventDefault());
  filter();
})();
