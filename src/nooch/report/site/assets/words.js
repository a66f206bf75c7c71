// One image in words, as nooch explain says it, with the thresholds of the page.
"use strict";
nooch.inWords = (() => {
  const { short, percent } = nooch;

  function rule(label, subset, support, threshold) {
    const name = subset === 2 ? `easy ${label ? "positive" : "negative"}` : ["hard positive", "hard negative"][subset];
    if (support === null || threshold === null || threshold === undefined) return name;
    const sign = support < threshold ? "<" : support > threshold ? ">" : "=";
    const usual = label ? "hard positives lie below" : "hard negatives lie above";
    return `${name}: context support ${short(support)} ${sign} ${short(threshold)} (${usual})`;
  }

  function cueWords(task, row, active, beta) {
    const listed = active.map((cue) => ({ ...cue, area: nooch.marks.area(task, cue.name)[row] }));
    // sorting is stable: cues of one area stay in their order
    listed.sort((a, b) => b.area - a.area);
    return listed
      .map((cue) => {
        const sign = cue.area > beta ? ">" : cue.area < beta ? "<" : "=";
        const note = cue.A === null ? "given by hand" : `A(${cue.name}, ${task.task}) = ${short(cue.A)}`;
        return `${cue.name} covers ${percent(cue.area)} ${sign} ${percent(beta)} (${note})`;
      })
      .join("; ");
  }

  // Python's strip, for the caption's ends
  function gistWords(task, cosine, captions) {
    const caption = captions.length ? `, captioned "${captions[0].trim()}"` : "";
    if (Number.isNaN(cosine)) return `the image has no caption embedding, so it has no gist${caption}`;
    return `the cosine of its gist with the gist of ${task}'s training images is ${cosine.toFixed(3)}${caption}`;
  }

  // what speaks for or against the class in an image, the largest first: name, whether it is there, log odds from an average image
  function contributions(task, criterion, row, split) {
    const one = task.criteria[criterion].regression, table = split.context[criterion];
    if (!one) return [];
    const [starts, columns, fold, weights, means] = [table.starts, table.columns, table.fold, one.weights, one.means].map(nooch.unpack);
    const there = new Set(Array.from(columns.subarray(starts[row], starts[row + 1]), (column) => table.names[column]));
    const from = fold[row] * (one.names.length + 1) + 1;
    const parts = one.names.map((name, k) => ({ name, there: there.has(name), text: one.words && one.words[k][+there.has(name)], value: weights[from + k] * (there.has(name) - means[k]) }));
    return parts.filter((part) => part.value).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  }

  const signed = (value) => `${value < 0 ? "" : "+"}${value.toFixed(1)}`;

  function contextWords(task, spec, support, row, split) {
    const { rate } = task.criteria[spec.name].regression, sign = support > Math.log(rate / (1 - rate)) ? 1 : -1;
    const two = (value) => short(value, 2).replace(/^0(?=.)/, "");
    const p = 1 / (1 + Math.exp(-support));
    const named = contributions(task, spec.name, row, split).filter((one) => one.value * sign > 0.05).slice(0, 3);
    const because = named.length ? `: ${named.map((one) => `${one.text || `${one.there ? "" : "no "}${one.name}`} (${signed(one.value)})`).join(", ")}` : "";
    return `${task.task} ${sign > 0 ? "is expected" : "is not expected"}: P = ${two(p)}, ${two(p / rate)} times the base rate${because}`;
  }

  function verdict(task, spec, found, row, settings, captions, split) {
    if (found.reason) return found.reason;
    if (found.marks[row] === nooch.marks.NONE) return "no verdict: the criterion cannot judge this image's context";
    const label = task.labels[row] === 1;
    const support = found.support ? found.support[row] : null;
    const threshold = found.thresholds ? found.thresholds[label ? 0 : 1] : null;
    const sentences = [rule(label, found.marks[row], support, threshold)];
    if (found.active) sentences.push(cueWords(task, row, found.active, settings[spec.name].beta));
    else if (spec.kind === "gist" && support !== null && spec.explained) sentences.push(gistWords(task.task, support, captions));
    else if (task.criteria[spec.name].regression && support !== null) sentences.push(contextWords(task, spec, support, row, split));
    else if (spec.kind === "attribute" && spec.phi) sentences.push(`${spec.phi} ${found.marks[row] === nooch.marks.EASY ? "does not hold: in context" : "holds: out of context"}`);
    return sentences.join("; ");
  }

  return { contributions, signed, verdict };
})();
