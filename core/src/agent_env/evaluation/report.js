"use strict";
(() => {
  // Everything shown was written by models and envs: it reaches the page through textContent alone.
  const data = JSON.parse(document.getElementById("data").textContent);
  const body = document.querySelector("#episodes tbody");
  const search = document.getElementById("search");
  const state = document.getElementById("state");
  const count = document.getElementById("count");
  const more = document.getElementById("more");
  const PAGE = 200;
  let key = "index", up = true, shown = PAGE, found = [];

  const text = (value) => typeof value === "string" ? value : value == null ? "" : JSON.stringify(value, null, 2);
  const add = (parent, tag, words, name) => {
    const made = document.createElement(tag);
    if (words !== undefined) made.textContent = words;
    if (name) made.className = name;
    parent.append(made);
    return made;
  };
  const haystack = (one) => one.hay ??= (one.task + "\n" + text(one.failure) + "\n" + one.end + "\n"
    + one.notes.join("\n") + "\n" + JSON.stringify(one.messages)).toLowerCase();
  const states = {
    "": () => true,
    solved: (one) => one.failure === null && one.reward >= data.pass_at,
    unsolved: (one) => one.failure === null && one.reward < data.pass_at,
    failed: (one) => one.failure !== null,
    odd: (one) => one.odd > 0,
    truncated: (one) => one.truncated,
  };

  const content = (value) => Array.isArray(value)
    ? value.map((part) => typeof part === "string" ? part : text(part && part.text !== undefined ? part.text : part)).join("")
    : text(value);

  const transcript = (cell, one) => {
    if (one.failure !== null) add(cell, "p", one.failure, "failed");
    const scores = Object.entries(one.scores).map(([name, value]) => `${name} ${value}`).join(", ");
    if (scores) add(cell, "p", "scores: " + scores);
    for (const note of one.notes) add(cell, "p", note, "reasoning");
    if (!one.messages.length) add(cell, "p", "no transcript");
    for (const message of one.messages) {
      const box = add(cell, "div", undefined, "message " + (["assistant", "tool", "user", "system"].includes(message.role) ? message.role : ""));
      add(box, "div", text(message.role), "role");
      const reasoning = message.reasoning_content ?? message.reasoning;
      if (reasoning) add(box, "pre", content(reasoning), "reasoning");
      if (message.content) add(box, "pre", content(message.content));
      if (Array.isArray(message.tool_calls)) for (const call of message.tool_calls) {
        const part = (call && call.function) || {};
        add(box, "pre", text(part.name) + "(" + text(part.arguments) + ")", "call");
      }
    }
  };

  const row = (one) => {
    const line = add(body, "tr", undefined, "episode");
    line.tabIndex = 0;
    add(line, "td", one.task);
    add(line, "td", String(one.repeat));
    const reward = one.failure !== null ? "failed" : String(Math.round(one.reward * 1000) / 1000);
    add(line, "td", reward, one.failure !== null ? "failed" : one.reward >= data.pass_at ? "solved" : "");
    for (const name of ["turns", "tool_calls", "odd", "tokens", "seconds", "end"]) add(line, "td", String(one[name]));
    const toggle = () => {
      const next = line.nextElementSibling;
      if (next && next.className === "detail") { next.remove(); return; }
      const detail = document.createElement("tr");
      detail.className = "detail";
      const cell = add(detail, "td");
      cell.colSpan = 9;
      transcript(cell, one);
      line.after(detail);
    };
    line.addEventListener("click", toggle);
    line.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
  };

  const draw = () => {
    body.replaceChildren();
    found.slice(0, shown).forEach(row);
    count.textContent = `${found.length} of ${data.episodes.length} episodes`;
    more.hidden = found.length <= shown;
  };
  const order = (a, b) => {
    const x = a[key], y = b[key];
    if (x === null || y === null) return (x === null) - (y === null);
    const by = typeof x === "string" ? x.localeCompare(y) : x - y;
    return (up ? by : -by) || a.index - b.index || a.repeat - b.repeat;
  };
  const update = () => {
    const needle = search.value.trim().toLowerCase();
    found = data.episodes.filter((one) => states[state.value](one) && (!needle || haystack(one).includes(needle))).sort(order);
    shown = PAGE;
    draw();
  };
  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(update, 150); });
  state.addEventListener("change", update);
  more.addEventListener("click", () => { shown += PAGE; draw(); });
  document.getElementById("filter").addEventListener("submit", (event) => event.preventDefault());
  for (const head of document.querySelectorAll("#episodes th")) head.addEventListener("click", () => {
    up = key === head.dataset.key ? !up : true;
    key = head.dataset.key;
    document.querySelectorAll("#episodes th").forEach((one) => one.classList.remove("sorted", "up"));
    head.classList.add("sorted");
    head.classList.toggle("up", up);
    update();
  });
  update();
})();
