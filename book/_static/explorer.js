// Moves through the numbers that the page carries (explorer-data). It computes nothing but shares of counts and formats
// them; without it the section stays hidden and the pictures below it show the same numbers.
"use strict";

(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const byId = (name) => document.getElementById(`explorer-${name}`);

  const draw = (tag, attributes, text) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const paragraph = (text) => {
    const element = document.createElement("p");
    element.textContent = text;
    return element;
  };

  const percent = (share) => `${(100 * share).toFixed(1)}%`;
  const rateWords = (factor, d, m) =>
    `${factor} √m d² = ${Number((factor * Math.sqrt(m) * d * d).toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 2 })}`;
  const tickWords = (factor) => {
    const exponent = Math.log10(factor);
    const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
    return factor >= 100 && Number.isInteger(exponent)
      ? `10${String(exponent).split("").map((digit) => digits[digit]).join("")}`
      : String(factor);
  };

  // "Head 1 looks most at position 5, a hidden one, with weight 0.998."
  const lookWords = (weights, pair, units) => {
    const best = weights.indexOf(Math.max(...weights));
    const role = best === pair[0] ? "p" : best === pair[1] ? "q" : "outside the pair";
    return `position ${best} (${role}), weight ${(weights[best] / units).toFixed(3)}`;
  };

  const countWords = ([starts, specialised, collapsed, distracted, low, high]) => {
    const leaning = starts - specialised - collapsed - distracted;
    return (
      `One step gives each head its own hidden position in ${specialised} of ${starts} starts: ` +
      `${percent(specialised / starts)} (95% interval ${percent(low)} to ${percent(high)}). ` +
      `The largest weights of the others: both heads on one target in ${collapsed}, a head outside the pair in ` +
      `${distracted}, on different targets but below 0.99 in ${leaning}.`
    );
  };

  // A map as a square of positions, read line by line; both targets are outlined, by different shapes.
  const drawMap = (svg, weights, pair, units, label) => {
    svg.setAttribute("aria-label", label);
    svg.replaceChildren(draw("rect", { class: "explorer-frame", x: 0, y: 0, width: 160, height: 160 }));
    if (!weights) return;
    const side = Math.ceil(Math.sqrt(weights.length));
    const size = 160 / side;
    weights.forEach((weight, position) => {
      svg.append(
        draw("rect", {
          class: "explorer-cell",
          x: (position % side) * size,
          y: Math.floor(position / side) * size,
          width: size,
          height: size,
          "fill-opacity": Math.sqrt(weight / units).toFixed(3),
        }),
      );
    });
    pair.forEach((position, which) => {
      const x = (position % side) * size;
      const y = Math.floor(position / side) * size;
      const half = size / 2 + 2;
      const [cx, cy] = [x + size / 2, y + size / 2];
      // Drawn twice: the wide stroke keeps the thin one apart from cells of any shade.
      for (const kind of ["explorer-halo", which === 0 ? "explorer-p" : "explorer-q"]) {
        svg.append(
          which === 0
            ? draw("rect", { class: kind, x: cx - half, y: cy - half, width: 2 * half, height: 2 * half })
            : draw("circle", { class: kind, cx, cy, r: half }),
        );
      }
    });
  };

  const start = () => {
    const section = document.getElementById("explorer");
    const source = byId("data");
    if (!section || !source) return;
    const data = JSON.parse(source.textContent);
    const asked = Number(section.dataset.asked);
    const sliders = { d: byId("d"), m: byId("m"), rate: byId("rate") };
    const chosenStart = byId("start");
    const words = byId("words");
    const chart = byId("chart");

    const [left, right, top, bottom] = [42, 316, 10, 178];
    const logs = data.factors.map(Math.log10);
    const span = logs[logs.length - 1] - logs[0] || 1;
    const across = (index) => left + 8 + ((logs[index] - logs[0]) / span) * (right - left - 16);
    const up = (share) => bottom - share * (bottom - top);

    const drawChart = (d, m, chosen) => {
      chart.replaceChildren();
      for (const share of [0, 0.25, 0.5, 0.75, 1]) {
        chart.append(
          draw("line", { class: "explorer-grid", x1: left, x2: right, y1: up(share), y2: up(share) }),
          draw("text", { x: left - 6, y: up(share) + 4, "text-anchor": "end" }, `${100 * share}%`),
        );
      }
      chart.append(
        draw("line", { class: "explorer-asked", x1: left, x2: right, y1: up(asked), y2: up(asked) }),
        draw("text", { x: left + 6, y: up(asked) + 14 }, `${Number((100 * asked).toFixed(1))}% asked for`),
        draw("text", { x: (left + right) / 2, y: 215, "text-anchor": "middle" }, "learning rate in units of √m d²"),
      );
      const seen = [];
      data.factors.forEach((factor, index) => {
        chart.append(draw("text", { x: across(index), y: bottom + 17, "text-anchor": "middle" }, tickWords(factor)));
        const cell = data.cells[`${d}.${m}.${index}`];
        if (cell) seen.push({ index, share: cell[1] / cell[0], low: cell[4], high: cell[5] });
      });
      chart.append(
        draw("polyline", { class: "explorer-line", points: seen.map((s) => `${across(s.index)},${up(s.share)}`).join(" ") }),
      );
      for (const { index, share, low, high } of seen) {
        const here = index === chosen;
        const x = across(index);
        chart.append(
          draw("line", { class: "explorer-whisker", x1: x, x2: x, y1: up(low), y2: up(high) }),
          draw("circle", { class: here ? "explorer-here" : "explorer-point", cx: x, cy: up(share), r: here ? 7 : 3.5 }),
        );
      }
      const last = seen.find((s) => s.index === chosen);
      chart.setAttribute(
        "aria-label",
        `Shares for d = ${data.d[d]}, m = ${data.m[m]}: ` +
          seen.map((s) => `${percent(s.share)} at ${data.factors[s.index]}`).join(", ") +
          (last ? `. Chosen: ${percent(last.share)}.` : "."),
      );
    };

    const update = () => {
      const [d, m, rate] = [sliders.d, sliders.m, sliders.rate].map((slider) => Number(slider.value));
      const [length, width, factor] = [data.d[d], data.m[m], data.factors[rate]];
      const shown = { d: String(length), m: String(width), rate: rateWords(factor, length, width) };
      for (const [name, text] of Object.entries(shown)) {
        byId(`${name}-value`).textContent = text;
        sliders[name].setAttribute("aria-valuetext", text);
      }

      const place = `${d}.${m}`;
      const cell = data.cells[`${place}.${rate}`];
      const before = data.before[`${place}.${chosenStart.value}`];
      const after = data.after[`${place}.${rate}.${chosenStart.value}`];
      const lines = [`d = ${length}, m = ${width}, η = ${shown.rate}.`];
      lines.push(cell ? countWords(cell) : "This build did not compute this combination; choose another.");
      const pair = before ? before.pair : [];
      if (before && after) {
        const [first, second] = after.map((weights) => lookWords(weights, pair, data.units));
        lines.push(
          `Start ${data.starts[chosenStart.value]} hides the pair p = ${pair[0]}, q = ${pair[1]}. ` +
            `After the step head 1 looks most at ${first}; head 2 at ${second}.`,
        );
      } else {
        lines.push("No attention map of this combination was kept.");
      }
      words.replaceChildren(...lines.map(paragraph));

      drawChart(d, m, rate);
      for (const head of [0, 1]) {
        for (const [when, heads] of [["before", before && before.heads], ["after", after]]) {
          const weights = heads && pair.length ? heads[head] : null;
          const label = weights
            ? `Head ${head + 1} ${when} the step: ${lookWords(weights, pair, data.units)}`
            : "no map of this combination";
          drawMap(byId(`${when}-${head}`), weights, pair, data.units, label);
        }
      }
    };

    for (const slider of Object.values(sliders)) slider.addEventListener("input", update);
    chosenStart.addEventListener("change", update);
    section.hidden = false;
    update();
  };

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
