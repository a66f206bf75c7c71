// The rule of every criterion, applied to the arrays of one task and split: what nooch find does, with the thresholds of the page.
"use strict";
nooch.marks = (() => {
  const HARD_POSITIVE = 0, HARD_NEGATIVE = 1, EASY = 2, NONE = 255;

  // the script of a task with its arrays unpacked; what is derived is kept in `cache`
  function open(content) {
    const made = { ...content, labels: nooch.unpack(content.labels), losses: content.losses.map(nooch.unpack), cache: new Map() };
    made.criteria = {};
    for (const [name, part] of Object.entries(content.criteria)) {
      const opened = { ...part };
      if (part.marks) opened.marks = nooch.unpack(part.marks);
      if (part.support) opened.support = nooch.unpack(part.support);
      made.criteria[name] = opened;
    }
    return made;
  }

  function kept(task, key, make) {
    if (!task.cache.has(key)) task.cache.set(key, make());
    return task.cache.get(key);
  }

  function area(task, name) {
    return kept(task, `area ${name}`, () => {
      const dense = new Float64Array(task.n);
      const rows = nooch.unpack(task.areas[name].rows), values = nooch.unpack(task.areas[name].values);
      for (let i = 0; i < rows.length; i++) dense[rows[i]] = values[i];
      return dense;
    });
  }

  // every class with A above alpha, strictly; cues given by hand stay
  function cues(part, alpha) {
    return part.cues.filter((cue) => part.fixed !== null || cue.A > alpha);
  }

  function largest(task, active) {
    const names = active.map((cue) => cue.name);
    return kept(task, `largest ${JSON.stringify(names)}`, () => {
      const found = new Float64Array(task.n);
      for (const name of names) {
        const values = area(task, name);
        for (let i = 0; i < task.n; i++) if (values[i] > found[i]) found[i] = values[i];
      }
      return found;
    });
  }

  // hard positives lie below the first threshold, hard negatives above the second, both strictly; NaN has no verdict
  function byThreshold(task, support, positive, negative) {
    const marks = new Uint8Array(task.n);
    for (let i = 0; i < task.n; i++) {
      const s = support[i], y = task.labels[i];
      if (Number.isNaN(s) || y > 1) marks[i] = NONE;
      else if (y === 1) marks[i] = s < positive ? HARD_POSITIVE : EASY;
      else marks[i] = s > negative ? HARD_NEGATIVE : EASY;
    }
    return { marks, support, thresholds: [positive, negative] };
  }

  // rows by a value of each, the smallest first and NaN last, ties in the order of rows; numbers alone sort many times as fast as rows with a comparison
  function ranked(rows, of) {
    const values = new Float64Array(rows.length), taken = new Uint32Array(rows.length + 1), found = new Uint32Array(rows.length);
    for (let k = 0; k < rows.length; k++) values[k] = of(rows[k]);
    const ascending = values.slice().sort();
    let known = ascending.length;
    while (known && Number.isNaN(ascending[known - 1])) known--;
    for (let k = 0; k < rows.length; k++) {
      let low = Number.isNaN(values[k]) ? known : 0, high = known;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (ascending[middle] < values[k]) low = middle + 1;
        else high = middle;
      }
      found[low + taken[low]++] = rows[k];
    }
    return found;
  }

  // rows of a side with support, the hardest first; ties by row, as ids are in order
  function ordered(task, name, support, label) {
    return kept(task, `order ${name} ${label}`, () => {
      const rows = [];
      for (let i = 0; i < task.n; i++) if (task.labels[i] === label && !Number.isNaN(support[i])) rows.push(i);
      const sign = label ? 1 : -1;
      return ranked(rows, (row) => sign * support[row]);
    });
  }

  function between(support, order, n) {
    if (!order.length) return null;
    if (n >= order.length) return support[order[order.length - 1]];
    const next = support[order[n]];
    if (!n) return next;
    const last = support[order[n - 1]];
    const middle = last + (next - last) / 2;
    return middle === last ? next : middle;
  }

  function byMatching(task, name, support, nPositive, nNegative) {
    const positives = ordered(task, name, support, 1), negatives = ordered(task, name, support, 0);
    const marks = new Uint8Array(task.n).fill(NONE);
    for (let k = 0; k < positives.length; k++) marks[positives[k]] = k < nPositive ? HARD_POSITIVE : EASY;
    for (let k = 0; k < negatives.length; k++) marks[negatives[k]] = k < nNegative ? HARD_NEGATIVE : EASY;
    return { marks, support, thresholds: [between(support, positives, nPositive), between(support, negatives, nNegative)] };
  }

  function counts(task, marks) {
    const found = { positives: 0, negatives: 0, hard_positives: 0, hard_negatives: 0, excluded_positives: 0, excluded_negatives: 0 };
    for (let i = 0; i < task.n; i++) {
      const y = task.labels[i], m = marks[i];
      if (y > 1) continue;
      if (m === NONE) y ? found.excluded_positives++ : found.excluded_negatives++;
      else {
        y ? found.positives++ : found.negatives++;
        if (m === HARD_POSITIVE) found.hard_positives++;
        else if (m === HARD_NEGATIVE) found.hard_negatives++;
      }
    }
    return found;
  }

  // {marks, support, thresholds, active, counts} or {reason}; settings: criterion -> {alpha, beta, tau, mode}
  function apply(task, specs, name, settings) {
    const spec = specs.find((one) => one.name === name), part = task.criteria[name], own = settings[name];
    let found;
    if (part.cues) {
      const active = cues(part, own.alpha);
      if (!active.length) return { reason: `no class has A(C, ${task.task}) > ${nooch.short(own.alpha)}` };
      found = { ...byThreshold(task, largest(task, active), own.beta, own.beta), active };
    } else if (part.support && spec.kind === "ce") found = byThreshold(task, part.support, own.beta, own.beta);
    else if (part.support && own.mode === "tau") found = byThreshold(task, part.support, own.tau, own.tau);
    else if (part.support && own.mode === "matched") {
      const other = apply(task, specs, spec.match, settings);
      if (other.reason) return { reason: `its counts are those of ${spec.match}, and there: ${other.reason}` };
      found = byMatching(task, name, part.support, other.counts.hard_positives, other.counts.hard_negatives);
    } else if (part.marks) found = { marks: part.marks, support: part.support || null, thresholds: part.thresholds };
    else return { reason: part.reason };
    return { ...found, counts: counts(task, found.marks) };
  }

  // a cue alone: positives where it is below beta, negatives where it is above; with the mean of values on each
  function byCue(task, active, beta, values) {
    return active.map((cue) => {
      const areas = area(task, cue.name), n = [0, 0], sums = [0, 0];
      for (let i = 0; i < task.n; i++) {
        const side = task.labels[i] === 1 && areas[i] < beta ? 0 : task.labels[i] === 0 && areas[i] > beta ? 1 : -1;
        if (side < 0) continue;
        n[side]++;
        if (values) sums[side] += values[i];
      }
      const means = sums.map((sum, side) => (values && n[side] ? sum / n[side] : null));
      return { ...cue, positives: n[0], negatives: n[1], means };
    });
  }

  function losses(task, criterion, method) {
    const place = (task.methods[criterion] || {})[method];
    return place === undefined ? null : task.losses[place];
  }

  // mean of values on hard positives, easy positives, hard negatives, easy negatives; null where there is no image
  function means(marks, labels, values) {
    const sums = [0, 0, 0, 0], n = [0, 0, 0, 0];
    for (let i = 0; i < marks.length; i++) {
      if (marks[i] === NONE || Number.isNaN(values[i])) continue;
      const cell = (labels[i] === 1 ? 0 : 2) + (marks[i] === EASY ? 1 : 0);
      sums[cell] += values[i];
      n[cell]++;
    }
    return sums.map((sum, i) => (n[i] ? sum / n[i] : null));
  }

  return { open, apply, ranked, area, byCue, losses, means, HARD_POSITIVE, HARD_NEGATIVE, EASY, NONE };
})();
