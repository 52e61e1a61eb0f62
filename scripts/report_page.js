"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (kind, attributes, ...inside) => {
    const node = document.createElement(kind);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    node.append(...inside);
    return node;
  };
  const svg = (kind, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    return node;
  };
  const digits = (value, count) => {
    const places = value === 0 ? 0 : Math.max(0, count - 1 - Math.floor(Math.log10(Math.abs(value) * (1 + 5 * 10 ** -count))));
    return value.toLocaleString("en-US", { minimumFractionDigits: Math.min(places, 9), maximumFractionDigits: Math.min(places, 9) });
  };
  const scaled = (value, units) => {
    const [factor, unit] = units.find(([f]) => Math.abs(value) >= f * 0.9995) || units[units.length - 1];
    return digits(value / factor, 3) + " " + unit;
  };
  const time = (ms) => scaled(ms, [[6e4, "min"], [1e3, "s"], [1, "ms"], [1e-3, "µs"]]);
  const bytes = (n) => scaled(n, [[1e15, "PB"], [1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
  const flops = (n) => scaled(n, [[1e15, "PFLOP"], [1e12, "TFLOP"], [1e9, "GFLOP"], [1e6, "MFLOP"], [1, "FLOP"]]);

  // What a mark says when pointed at or reached by keyboard.
  const tip = $("div", { id: "tip", role: "status" });
  document.body.append(tip);
  function say(text, x, y) {
    tip.textContent = text;
    tip.classList.add("on");
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, x - box.width / 2), document.documentElement.clientWidth - box.width - 8);
    const above = y - box.height - 14;
    tip.style.left = left + window.scrollX + "px";
    tip.style.top = (above > 4 ? above : y + 20) + window.scrollY + "px";
  }
  const hush = () => tip.classList.remove("on");
  document.addEventListener("pointermove", (event) => {
    const mark = event.target.closest && event.target.closest("[data-tip]");
    if (mark) say(mark.dataset.tip, event.clientX, event.clientY);
    else if (!event.target.closest || !event.target.closest(".timeline")) hush();
  });
  document.addEventListener("focusin", (event) => {
    const mark = event.target.closest("[data-tip]");
    if (!mark) return hush();
    const box = mark.getBoundingClientRect();
    say(mark.dataset.tip, box.x + box.width / 2, box.y);
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hush(); });

  // The table.
  const columns = data.columns, table = document.querySelector("table.rows");
  let sorted = { column: data.sort, down: false }, shown = 0, chosen = [];
  const page = 50;
  const cell = (row, name) => data.rows[name][row];
  const command = (row) => data.commands[row].map((word) => data.words[word]).join(" ");
  function matcher(text) {
    // Between commas: mfu>40 or memory<70 compare a column; words are looked for as they stand in label, outcome and reason.
    const tests = text.split(",").map((part) => part.trim()).filter(Boolean).map((part) => {
      const parts = /^([a-z_%/]+)\s*(<=|>=|<|>|=)\s*(-?[\d.]+)$/i.exec(part);
      const column = parts && columns.find((c) => c.short === parts[1].toLowerCase());
      if (!column) {
        const words = new RegExp(part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + (/\d$/.test(part) ? "(?![\\d.])" : ""), "i");
        return (row) => words.test(data.search[row]);
      }
      const limit = Number(parts[3]) * (column.factor || 1);
      const test = { "<": (v) => v < limit, ">": (v) => v > limit, "<=": (v) => v <= limit, ">=": (v) => v >= limit, "=": (v) => v === limit }[parts[2]];
      return (row) => cell(row, column.name) !== null && test(cell(row, column.name));
    });
    return (row) => tests.every((test) => test(row));
  }
  const form = { text: document.getElementById("filter"), outcome: document.getElementById("outcome") };
  function choose() {
    const fits = matcher(form.text.value), outcome = form.outcome.value;
    chosen = [];
    for (let row = 0; row < data.count; ++row)
      if ((!outcome || cell(row, "outcome") === outcome) && fits(row)) chosen.push(row);
    const values = data.rows[sorted.column], sign = sorted.down ? -1 : 1;
    chosen.sort((a, b) => {
      const x = values[a], y = values[b];
      if (x === null || y === null) return (x === null) - (y === null);
      return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b;
    });
    table.tBodies[0].replaceChildren();
    shown = 0;
    more();
    for (const head of table.tHead.rows[0].cells) {
      if (head.dataset.column === sorted.column) head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  }
  function shownValue(column, value) {
    if (value === null || value === undefined) return "";
    if (column.kind === "time") return time(value);
    if (column.kind === "bytes") return bytes(value);
    if (column.kind === "percent") return value.toFixed(1) + "%";
    if (column.kind === "rate") return scaled(value, [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]]);
    return typeof value !== "number" ? value : Number.isInteger(value) ? value.toLocaleString("en-US") : digits(value, 4);
  }
  function line(row) {
    const outcome = cell(row, "outcome"), tr = $("tr", outcome === "passed" ? {} : { class: "not" });
    for (const column of columns) {
      const td = $("td", column.kind === "words" ? { class: "words" } : {}, shownValue(column, cell(row, column.name)));
      if (column.name === "label" && outcome !== "passed") td.append($("span", { class: "outcome " + outcome }, outcome));
      tr.append(td);
    }
    const button = $("button", { class: "copy", type: "button", "aria-expanded": "false", "aria-label": "Command of " + cell(row, "label") }, "command");
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) return tr.nextSibling.remove();
      tr.after(detail(row));
    });
    tr.append($("td", {}, button));
    return tr;
  }
  function block(words, text) {
    const copy = $("button", { class: "copy", type: "button" }, "copy");
    copy.addEventListener("click", () => navigator.clipboard && navigator.clipboard.writeText(text).then(() => { copy.textContent = "copied"; }, () => {}));
    return [$("div", {}, words + " ", copy), $("pre", {}, $("code", {}, text))];
  }
  function detail(row) {
    const inside = $("td", { class: "more", colspan: columns.length + 1 });
    if (data.reasons[row]) inside.append($("p", {}, data.reasons[row]));
    inside.append(...block("Again:", command(row)));
    for (const [words, text] of Object.entries(data.flags[row] || {})) inside.append(...block(words + ":", text));
    return $("tr", {}, inside);
  }
  function more() {
    const until = Math.min(shown + page, chosen.length);
    table.tBodies[0].append(...chosen.slice(shown, until).map(line));
    shown = until;
    document.getElementById("more").hidden = shown >= chosen.length;
    document.getElementById("count").textContent = chosen.length === data.count ? `${shown} of ${data.count} rows` : `${shown} of the ${chosen.length} rows that match, of ${data.count}`;
  }
  for (const head of table.tHead.rows[0].cells) {
    const name = head.dataset.column;
    if (name) head.firstChild.addEventListener("click", () => { sorted = { column: name, down: sorted.column === name && !sorted.down }; choose(); });
  }
  form.text.addEventListener("input", choose);
  form.outcome.addEventListener("change", choose);
  document.getElementById("more").addEventListener("click", more);
  document.getElementById("download").addEventListener("click", () => {
    const quoted = (value) => (value === null || value === undefined ? "" : /[",\n]/.test(value) ? '"' + String(value).replace(/"/g, '""') + '"' : String(value));
    const names = columns.map((column) => column.name).concat("outcome", "reason", "command");
    const text = [names.join(",")].concat(chosen.map((row) => columns.map((column) => cell(row, column.name)).concat(cell(row, "outcome"), data.reasons[row], command(row)).map(quoted).join(","))).join("\n") + "\n";
    const link = $("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: data.download });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  choose();

  // The timeline.
  for (const place of document.querySelectorAll(".timeline")) timeline(place);
  function timeline(place) {
    const facts = data.timeline, lanes = facts.lanes, names = facts.names, said = place.parentNode.querySelector(".said");
    const kinds = facts.kinds, end = facts.end, rowHeight = Math.max(11, Math.min(30, 440 / facts.stages.length)), left = 66, foot = 24;
    const height = facts.stages.length * rowHeight + foot;
    let from = 0, to = end, at = { stage: 0, block: 0 };
    const picture = svg("svg", { role: "img", tabindex: "0", height, "aria-label": place.dataset.name });
    place.append(picture);
    const colour = { F: "f", B: "b", I: "b", W: "w", R: "r", OPT: "o", D: "f", ADD: "w", REDUCE: "dp", GATHER: "dp" };
    const width = () => place.clientWidth;
    const x = (t) => left + ((t - from) / (to - from)) * (width() - left - 4);
    function draw() {
      picture.replaceChildren();
      picture.setAttribute("viewBox", `0 0 ${width()} ${height}`);
      const paths = {}, texts = [];
      const clipLeft = left, clipRight = width() - 4;
      facts.stages.forEach((stage, s) => {
        const top = s * rowHeight, tall = rowHeight > 16 ? rowHeight * 0.66 : rowHeight - 4;
        const put = (key, start, length, y, h) => {
          let a = x(start), b = x(start + length);
          if (b < clipLeft || a > clipRight) return 0;
          a = Math.max(a, clipLeft); b = Math.min(b, clipRight);
          (paths[key] = paths[key] || []).push(`M${a.toFixed(1)} ${y.toFixed(1)}h${Math.max(b - a - (b - a > 3 ? 0.8 : 0), 0.3).toFixed(1)}v${h.toFixed(1)}H${a.toFixed(1)}z`);
          return b - a;
        };
        put("idle", from, to - from, top + 2, tall);
        for (const [start, length, kind, microbatch, chunk] of stage.blocks) {
          const wide = put((colour[kinds[kind]] || "o") + (chunk ? ` chunk${Math.min(chunk, 3)}` : ""), start, length, top + 2, tall);
          if (wide > 17 && tall > 11 && kinds[kind] !== "OPT") texts.push([Math.max(x(start), clipLeft) + wide / 2, top + tall / 2 + 6, microbatch]);
        }
        if (rowHeight > 16) for (const [lane, pieces] of Object.entries(stage.communication)) for (const [start, length] of pieces) put(lane, start, length, top + tall + 3, rowHeight - tall - 5);
        if (rowHeight > 12 || s % 2 === 0) {
          const label = svg("text", { x: left - 8, y: top + tall / 2 + 6, "text-anchor": "end" });
          label.textContent = stage.name;
          picture.append(label);
        }
      });
      for (const [key, pieces] of Object.entries(paths)) {
        const [name, chunk] = key.split(" ");
        picture.append(svg("path", { d: pieces.join(""), fill: `var(--${name})`, opacity: chunk ? { chunk1: 0.75, chunk2: 0.55, chunk3: 0.4 }[chunk] : 1 }));
      }
      picture.prepend(picture.querySelector('path[fill="var(--idle)"]'));
      for (const [px, py, number] of texts) {
        const text = svg("text", { x: px, y: py, "text-anchor": "middle", class: "mb" });
        text.textContent = number;
        picture.append(text);
      }
      const step = niceStep((to - from) / Math.max(3, Math.floor(width() / 130)));
      for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
        const text = svg("text", { x: x(t), y: height - 6, "text-anchor": "middle" });
        text.textContent = t === 0 ? "0" : time(t / 1e3);
        picture.append(text);
      }
    }
    function niceStep(least) {
      const power = Math.pow(10, Math.floor(Math.log10(least)));
      return power * [1, 2, 5, 10].find((factor) => factor * power >= least);
    }
    function describe(stage, block, t) {
      const [start, length, kind, microbatch, chunk] = block;
      let text = `${stage.name}: ${names[kinds[kind]] || kinds[kind]}${kinds[kind] === "OPT" ? "" : ` of microbatch ${microbatch}`}${stage.chunks > 1 ? `, chunk ${chunk}` : ""}\n${time(length / 1e3)}, from ${time(start / 1e3)}`;
      const ops = facts.ops[stage.ops[kinds[kind] + chunk]];
      if (!ops || t === undefined) return text;
      const whole = ops.length ? ops[ops.length - 1][2] + ops[ops.length - 1][3] : 1;
      const offset = ((t - start) / length) * whole;
      const op = ops.find((o) => o[2] + o[3] >= offset) || ops[ops.length - 1];
      if (op) text += `\n${facts.words[op[0]]}${op[4] >= 0 ? `, layer ${op[4]}` : ""}: ${time(op[3] / 1e3)}, ${bytes(op[5])}${op[6] ? ", " + flops(op[6]) : ""}`;
      return text;
    }
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect(), stage = facts.stages[Math.floor((event.clientY - box.y) / rowHeight)];
      const t = from + ((event.clientX - box.x - left) / (box.width - left - 4)) * (to - from);
      if (!stage || t < from || t > to) return hush();
      const within = (event.clientY - box.y) % rowHeight;
      if (rowHeight > 16 && within > rowHeight * 0.72)
        for (const [lane, pieces] of Object.entries(stage.communication)) {
          const piece = pieces.find((p) => p[0] <= t && t <= p[0] + p[1]);
          if (piece) return say(`${stage.name}: ${lane} communication, ${facts.words[piece[4]]}${piece[2] > 1 ? ` and ${piece[2] - 1} more` : ""}\n${time(piece[1] / 1e3)}${piece[3] ? ", " + bytes(piece[3]) : ""}`, event.clientX, event.clientY);
        }
      const block = stage.blocks.find((b) => b[0] <= t && t <= b[0] + b[1]);
      say(block ? describe(stage, block, t) : `${stage.name}: waits at ${time(t / 1e3)}`, event.clientX, event.clientY);
    });
    picture.addEventListener("pointerleave", hush);
    const zoom = (factor, around) => {
      const middle = around === undefined ? (from + to) / 2 : around, span = Math.min(end, Math.max((to - from) * factor, end / 2000));
      from = Math.max(0, Math.min(end - span, middle - (middle - from) * (span / (to - from))));
      to = from + span;
      draw();
    };
    const pan = (share) => { const shift = Math.max(-from, Math.min(end - to, share * (to - from))); from += shift; to += shift; draw(); };
    picture.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = picture.getBoundingClientRect();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, from + ((event.clientX - box.x - left) / (box.width - left - 4)) * (to - from));
    }, { passive: false });
    picture.addEventListener("keydown", (event) => {
      const blocks = facts.stages[at.stage].blocks;
      if (event.key === "ArrowRight") at.block = Math.min(at.block + 1, blocks.length - 1);
      else if (event.key === "ArrowLeft") at.block = Math.max(at.block - 1, 0);
      else if (event.key === "ArrowDown") at = { stage: Math.min(at.stage + 1, facts.stages.length - 1), block: 0 };
      else if (event.key === "ArrowUp") at = { stage: Math.max(at.stage - 1, 0), block: 0 };
      else if (event.key === "+" || event.key === "=") return zoom(0.5);
      else if (event.key === "-") return zoom(2);
      else return;
      event.preventDefault();
      const block = facts.stages[at.stage].blocks[at.block];
      if (block) said.textContent = describe(facts.stages[at.stage], block).replace("\n", ", ");
    });
    const tools = place.parentNode.querySelector(".tools");
    const actions = { "in": () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.5), right: () => pan(0.5), all: () => { from = 0; to = end; draw(); } };
    for (const button of tools.querySelectorAll("button")) button.addEventListener("click", actions[button.dataset.do]);
    new ResizeObserver(draw).observe(place);
    draw();
  }
})();
