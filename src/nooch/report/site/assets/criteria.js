// The page Criteria: charts over the thresholds; what the suite's own are is marked.
"use strict";
nooch.load("criteria").then((data) => {
  const { el, plain, words, short, charts } = nooch, own = [data.alpha, data.beta];
  const box = document.getElementById("criteria");
  const unique = (list) => [...new Set(list)];
  const part = (title, note, figures) => figures.length && box.append(el("section", {}, el("h2", {}, title), el("p", { class: "hint" }, note), el("div", { class: figures.length > 3 ? "figures" : "figures few" }, figures)));
  const matrix = (n, m, at) => Array.from({ length: n }, (_, j) => Array.from({ length: m }, (_, i) => at(i, j)));

  const points = data.points || [];
  part("Are hard images harder?", `A point for each task. Above the line, ${plain(data.method || "")} loses more on hard images than on all of their side.`,
    unique(points.map((p) => p.criterion)).flatMap((criterion) => ["positive", "negative"].map((side) => {
      const own = points.filter((p) => p.criterion === criterion && p.side === side).map((p) => ({ name: words(p.task), x: p.all, y: p.hard }));
      const title = `${plain(criterion)}, ${side}s: ${own.filter((p) => p.y > p.x).length} of ${own.length} above`;
      return own.length ? charts.figure(title, charts.scatter(title, own, side, `NLL, all ${side}s`, `NLL, hard ${side}s`)) : null;
    })).filter(Boolean));

  if (data.cues && data.cues.alpha.length) {
    const alphas = unique(data.cues.alpha).sort((a, b) => a - b);
    const series = [1, 2, 3, 4, 5].map((k) => ({ name: `${k} cues or more`, kind: `shade${k}`, points: alphas.map((a) => [a, data.cues.n_cues.filter((n, i) => data.cues.alpha[i] === a && n >= k).length]) }));
    part("How many cues a task has", `Tasks with at least 1 (darkest), 2, 3, 4 and 5 context cues (lightest), by α.${data.alpha === undefined ? "" : ` The dashed line is the suite's α, ${short(data.alpha)}.`}`, [charts.figure("Tasks by number of cues", charts.lines("Number of tasks with at least 1 to 5 context cues by alpha", series, "α", "tasks", data.alpha))]);
  }

  if (data.grid && data.grid.alpha.length) {
    const grid = data.grid, alphas = unique(grid.alpha).sort((a, b) => a - b), betas = unique(grid.beta).sort((a, b) => a - b);
    const figures = unique(grid.split).filter((s) => s === data.split).flatMap((split) => ["positive", "negative"].map((side) => {
      const value = new Map(grid.alpha.map((a, i) => [`${grid.split[i]} ${a} ${grid.beta[i]}`, grid[`share_${side}`][i]]));
      const title = `Share of ${side}s that are hard (${split})`;
      return charts.figure(title, charts.heat(title, alphas, betas, matrix(betas.length, alphas.length, (i, j) => value.get(`${split} ${alphas[i]} ${betas[j]}`) ?? null), "α", "β", own, side));
    }));
    part("How many images are hard by α and β", `All tasks together${alphas.includes(data.alpha) && betas.includes(data.beta) ? `; the square is at the suite's α = ${short(data.alpha)} and β = ${short(data.beta)}` : ""}.`, figures);
  }

  if (data.tau && data.tau.tau && data.tau.tau.length) {
    const tau = data.tau, taus = unique(tau.tau).sort((a, b) => a - b), tasks = unique(tau.task);
    const figures = ["positive", "negative"].map((side) => {
      const column = tau[`hard_${side}s`], value = new Map(tau.tau.map((t, i) => [`${tau.task[i]}\n${t}\n${tau.split[i]}`, column[i]]));
      const series = tasks.map((task) => ({ name: words(task), kind: `thin ${side}`, points: taus.map((t) => [t, value.get(`${task}\n${t}\n${data.split}`) ?? null]) }));
      return charts.figure(`Hard ${side}s by τ`, charts.lines(`Hard ${side}s of each task by tau`, series, "τ", "images"));
    });
    part("How many images are hard by τ", `A line for each task (${plain(data.split)}).`, figures);
  }

  if (data.by_alpha_beta) {
    const found = data.by_alpha_beta;
    part("Losses of hard images by α and β", `Mean NLL of ${plain(data.method)} on hard images of all tasks together, with the setting chosen on the suite's own sets; gray where no image is hard.`,
      ["positive", "negative"].map((side) => {
        const title = `NLL on hard ${side}s`;
        return charts.figure(title, charts.heat(title, found.alpha, found.beta, matrix(found.beta.length, found.alpha.length, (i, j) => found[side][i][j]), "α", "β", own, side));
      }));
  }

  if (data.by_tau) {
    const found = data.by_tau;
    part("Losses of hard images by τ", `Mean NLL of ${plain(data.method)} on hard images of all tasks together.`,
      ["positive", "negative"].filter((side) => found[side].some((v) => v !== null)).map((side) => charts.figure(`NLL on hard ${side}s`, charts.lines(`Mean NLL on hard ${side}s by tau`, [{ name: side, kind: `thick ${side}`, points: found.tau.map((t, i) => [t, found[side][i]]) }], "τ", "NLL"))));
  }
});
