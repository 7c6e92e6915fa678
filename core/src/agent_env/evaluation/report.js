"use strict";
(() => {
  // Everything shown was written by models and envs: it reaches the page through textContent alone.
  const data = JSON.parse(document.getElementById("data").textContent);
  const chunks = [...document.querySelectorAll("script.chunk")];
  const body = document.querySelector("#episodes tbody");
  const search = document.getElementById("search");
  const state = document.getElementById("state");
  const count = document.getElementById("count");
  const more = document.getElementById("more");
  const PAGE = 200;
  const KEPT = 64e6;  // characters of packed transcripts that stay unpacked once they were read
  let key = "index", up = true, shown = PAGE, found = [], turn = 0, alone = false;

  const text = (value) => typeof value === "string" ? value : value == null ? "" : JSON.stringify(value, null, 2);
  const add = (parent, tag, words, name) => {
    const made = document.createElement(tag);
    if (words !== undefined) made.textContent = words;
    if (name) made.className = name;
    parent.append(made);
    return made;
  };

  // Transcripts
  const small = chunks.reduce((sum, one) => sum + one.textContent.length, 0) < KEPT;
  const unpacked = new Map();
  const unpack = async (number) => {
    if (unpacked.has(number)) return unpacked.get(number);
    const bytes = Uint8Array.from(atob(chunks[number].textContent), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const talks = JSON.parse(await new Response(stream).text());
    if (!small) unpacked.clear();
    unpacked.set(number, talks);
    return talks;
  };
  const strings = (value) => typeof value === "string" ? value
    : value && typeof value === "object" ? Object.values(value).map(strings).join("\n") : "";
  const content = (value) => Array.isArray(value)
    ? value.map((part) => typeof part === "string" ? part : text(part && part.text !== undefined ? part.text : part)).join("")
    : text(value);
  const talk = (cell, messages) => {
    for (const message of messages) {
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
  const transcript = async (cell, one) => {
    if (one.failure !== null) add(cell, "p", one.failure, "failed");
    const scores = Object.entries(one.scores).map(([name, value]) => `${name} ${value}`).join(", ");
    if (scores) add(cell, "p", "scores: " + scores);
    for (const note of one.notes) add(cell, "p", note, "reasoning");
    if (one.at === null) { add(cell, "p", "no transcript"); return; }
    try {
      talk(cell, (await unpack(one.at[0]))[one.at[1]]);
    } catch (error) {
      add(cell, "p", "this browser cannot unpack the transcript: " + error, "failed");
    }
  };

  // Episodes
  const row = (one) => {
    const line = add(body, "tr", undefined, "episode");
    line.tabIndex = 0;
    add(line, "td", one.task);
    add(line, "td", String(one.repeat));
    const reward = one.failure !== null ? "failed" : String(Math.round(one.reward * 1000) / 1000);
    add(line, "td", reward, one.failure !== null ? "failed" : one.solved ? "solved" : "");
    for (const name of ["turns", "tool_calls", "odd", "tokens", "seconds", "end"]) add(line, "td", String(one[name]));
    const toggle = () => {
      const next = line.nextElementSibling;
      if (next && next.className === "detail") { next.remove(); return; }
      const detail = document.createElement("tr");
      detail.className = "detail";
      const cell = add(detail, "td");
      cell.colSpan = 9;
      line.after(detail);
      location.replace("#e" + data.episodes.indexOf(one));  // an address of its own, to pass on
      return transcript(cell, one);
    };
    line.addEventListener("click", toggle);
    line.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
    return toggle;
  };
  const states = {
    "": () => true,
    solved: (one) => one.solved,
    unsolved: (one) => one.failure === null && !one.solved,
    failed: (one) => one.failure !== null,
    odd: (one) => one.odd > 0,
    truncated: (one) => one.truncated,
  };
  const names = new Intl.Collator(undefined, { numeric: true });
  const compare = (x, y) => {
    if (x === null || y === null) return (x === null) - (y === null);
    const by = typeof x === "string" ? names.compare(x, y) : x - y;
    return up ? by : -by;
  };
  const draw = (all, note) => {
    found = all.sort((a, b) => compare(a[key], b[key]) || a.index - b.index || a.repeat - b.repeat);
    body.replaceChildren();
    found.slice(0, shown).forEach(row);
    count.textContent = `${found.length} of ${data.episodes.length} episodes${note}`;
    more.hidden = found.length <= shown;
  };
  const brief = (one) => [one.task, text(one.failure), one.end, ...one.notes].join("\n").toLowerCase();
  const update = async () => {
    const mine = ++turn;
    const needle = search.value.trim().toLowerCase();
    const possible = data.episodes.filter(states[state.value]);
    shown = PAGE;
    if (!needle) { draw(possible, ""); return; }
    const hits = possible.filter((one) => brief(one).includes(needle));
    const known = new Set(hits);
    const rest = possible.filter((one) => one.at !== null && !known.has(one));
    draw(hits, rest.length ? ", reading transcripts …" : "");
    for (const [number, talks] of grouped(rest)) {
      let read = [];
      try { read = await unpack(number); } catch { break; }
      if (mine !== turn) return;
      hits.push(...talks.filter((one) => strings(read[one.at[1]]).toLowerCase().includes(needle)));
      count.textContent = `${hits.length} of ${data.episodes.length} episodes, reading transcripts …`;
    }
    if (rest.length) draw(hits, "");
  };
  const grouped = (all) => {
    const groups = new Map();
    for (const one of all) {
      if (!groups.has(one.at[0])) groups.set(one.at[0], []);
      groups.get(one.at[0]).push(one);
    }
    return groups;
  };
  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(update, 200); });
  state.addEventListener("change", update);
  more.addEventListener("click", () => {
    if (alone) { alone = false; more.textContent = "Show more"; update(); return; }
    shown += PAGE;
    draw(found, "");
  });
  document.getElementById("filter").addEventListener("submit", (event) => event.preventDefault());
  const sorts = (table, then) => {
    const heads = [...table.querySelectorAll("th")];
    for (const head of heads) head.addEventListener("click", () => {
      const rises = head.classList.contains("sorted") ? !head.classList.contains("up") : true;
      heads.forEach((one) => one.classList.remove("sorted", "up"));
      head.classList.add("sorted");
      head.classList.toggle("up", rises);
      up = rises;
      then(head, heads.indexOf(head));
    });
  };
  sorts(document.getElementById("episodes"), (head) => { key = head.dataset.key; update(); });

  // Tasks: the rows are in the page already
  const tasks = document.getElementById("tasks");
  const value = (line, place) => {
    const raw = line.cells[place].dataset.v;
    return raw === "" ? null : place === 0 ? raw : Number(raw);
  };
  sorts(tasks, (_, place) => {
    const lines = [...tasks.tBodies[0].rows].sort((a, b) => compare(value(a, place), value(b, place)));
    tasks.tBodies[0].append(...lines);
  });
  tasks.tBodies[0].addEventListener("click", (event) => {
    const line = event.target.closest("tr");
    if (!line) return;
    search.value = line.cells[0].textContent;
    state.value = "";
    update();
    document.getElementById("all").scrollIntoView();
  });

  const linked = data.episodes[Number(/^#e(\d+)$/.exec(location.hash)?.[1] ?? NaN)];
  if (linked) {
    draw([linked], ", the one of the address");
    body.replaceChildren();
    row(linked)();
    alone = true;
    more.textContent = "Show all";
    more.hidden = false;
    document.getElementById("all").scrollIntoView();
  } else update();
})();
