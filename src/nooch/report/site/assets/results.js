// The page Results: hard against easy for each method.
"use strict";
nooch.load("results").then((data) => {
  const { plain, words, fill, charts } = nooch;
  const names = { auc: "AUC (higher is better)", error: "Error (lower is better)", nll: "NLL (lower is better)", ece: "ECE (lower is better)",
    fpr: "False yes, FPR (lower is better)", recall: "Recall (higher is better)", dprime: "d' (higher is better)", response_criterion: "Response criterion (below 0: towards yes)" };
  const series = {
    hard: { name: "hard", kind: "hard" }, easy: { name: "easy", kind: "easy" },
    hard_positive: { name: "hard positives", kind: "positive" }, easy_positive: { name: "easy positives", kind: "positive hollow" },
    hard_negative: { name: "hard negatives", kind: "negative" }, easy_negative: { name: "easy negatives", kind: "negative hollow" },
  };
  const rows = data.task.map((_, i) => Object.fromEntries(Object.keys(data).map((key) => [key, data[key][i]])));
  const unique = (key) => [...new Set(rows.map((row) => row[key]))];
  const select = document.getElementById("task"), box = document.getElementById("figures");
  const tasks = unique("task").sort((a, b) => (b === "average") - (a === "average"));
  fill(select, tasks.map((t) => [t, t === "average" ? "average over tasks" : words(t)]), tasks[0]);

  function draw() {
    const figures = [];
    for (const metric of unique("metric").sort((a, b) => Object.keys(names).indexOf(a) - Object.keys(names).indexOf(b)))
      for (const criterion of unique("criterion")) {
        const part = rows.filter((row) => row.metric === metric && row.criterion === criterion && row.task === select.value);
        const subsets = [...new Set(part.map((row) => row.subset))].sort((a, b) => Object.keys(series).indexOf(a) - Object.keys(series).indexOf(b));
        const methods = [...new Set(part.map((row) => row.method))].map((method) => ({ name: plain(method), points: subsets.map((s) => part.find((row) => row.method === method && row.subset === s) || null) }));
        // over how many tasks an average is
        const over = part.length && part[0].over ? `, ${part[0].over} tasks` : "";
        if (methods.length) figures.push(charts.figure(`${names[metric]}, ${plain(criterion)}${over}`, charts.dots(`${names[metric]}, ${criterion}`, methods, subsets.map((s) => series[s]), words(metric).toUpperCase(), charts.column(box))));
      }
    box.replaceChildren(...figures);
  }

  select.addEventListener("change", draw);
  const form = document.getElementById("choose");
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  draw();
});
