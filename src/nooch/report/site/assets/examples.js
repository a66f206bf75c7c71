// The pages Examples: one task or one kind alone; without this script everything of a page is shown.
"use strict";
(() => {
  const task = document.getElementById("task"), kind = document.getElementById("kind");
  const page = location.pathname.split("/").pop() || "examples.html";
  function filter() {
    const of = task.selectedOptions[0].dataset.page;
    if (of && of !== page) {
      location.href = `${of}#task=${task.value}`;
      return;
    }
    document.querySelectorAll(".example-task").forEach((one) => {
      one.hidden = task.value !== "" && one.dataset.task !== task.value;
      one.open ||= one.dataset.task === task.value;
    });
    document.querySelectorAll(".example-group").forEach((one) => { one.hidden = kind.value !== "" && one.dataset.kind !== kind.value; });
  }
  for (const one of [task, kind]) one.addEventListener("change", filter);
  const form = document.getElementById("pick");
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  const wanted = new URLSearchParams(location.hash.slice(1)).get("task");
  if (wanted !== null && [...task.options].some((one) => one.value === wanted && one.dataset.page === page)) task.value = wanted;
  filter();
})();
