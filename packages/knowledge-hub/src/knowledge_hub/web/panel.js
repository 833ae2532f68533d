// The hub's panel: entries, their ratings over time, what changed from version to version, and what slimming would do.
// It runs in a frame without rights; all text of entries goes in as text, never as HTML.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export function show(root, { ask }) {
  const style = new CSSStyleSheet();
  style.replaceSync(`
    .hub { display: grid; gap: 1rem; }
    .hub [role="search"], .hub .bar { display: flex; flex-wrap: wrap; gap: .5rem; align-items: end; }
    .hub ul { list-style: none; margin: 0; padding: 0; display: grid; gap: .5rem; }
    .hub li { border: 1px solid currentColor; border-radius: .4rem; padding: .5rem .7rem; overflow-wrap: anywhere; }
    .hub pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; }
    .hub .add { color: #0a6b2d; } .hub .gone { color: #a3171c; }
    .dark .hub .add { color: #7ee2a0; } .dark .hub .gone { color: #ffa3a3; }
    .hub svg { max-width: 100%; height: 4rem; }`);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, style];
  const status = h("p", { role: "status" });
  const place = h("div");
  const asked = () => run(words.value.trim() ? find : list);
  const words = h("input", { type: "search", "aria-label": "Question", onkeydown: (event) => { if (event.key === "Enter") asked(); } });
  // Not a form: in a frame without rights nothing is submitted.
  const form = h("div", { role: "search" }, words, h("button", { type: "button", onclick: asked }, "Search"));
  const bar = h("div", { class: "bar" }, form,
    h("button", { type: "button", onclick: () => run(list) }, "Latest"),
    h("button", { type: "button", onclick: () => run(plan) }, "What could be merged"));
  root.replaceChildren(h("div", { class: "hub" }, h("h1", {}, "What was learned"), bar, status, place));

  async function get(path, options) {
    const answer = await ask(path, options);
    return answer.text ? JSON.parse(answer.text) : null;
  }

  async function run(what, ...given) {
    status.textContent = "…";
    try {
      status.textContent = await what(...given) ?? "";
    } catch (error) {
      status.textContent = String(error.message ?? error);
    }
  }

  function entry(one) {
    const kinds = one.tags.type.join(", ");
    const feedback = one.eval ?? one.metrics;
    const rating = `${one.eval?.score ?? one.score}/5, helped ${feedback.helpful}, harmed ${feedback.harmful}`;
    return h("li", {},
      h("button", { type: "button", onclick: () => run(detail, one.id) }, one.scenario),
      h("p", {}, `${one.id} · ${kinds || "no type"} · ${rating}`));
  }

  async function list() {
    const { results } = await get("?limit=50");
    place.replaceChildren(h("ul", { "aria-label": "Entries" }, ...results.map(entry)));
    return `${results.length} entries, the latest first`;
  }

  async function find() {
    const { results, router } = await get(`/search?q=${encodeURIComponent(words.value)}&top_k=20&min_score=1`);
    place.replaceChildren(h("ul", { "aria-label": "Entries" }, ...results.map(entry)));
    return `${results.length} found by ${router === "model" ? "a model" : "words"}`;
  }

  async function detail(id) {
    const path = `/${encodeURIComponent(id)}`;
    const [one, { versions, ratings }] = await Promise.all([get(path), get(`${path}/history`)]);
    const title = h("h2", { tabindex: "-1" }, one.scenario);
    place.replaceChildren(h("article", {}, title,
      h("p", {}, `${one.id} · version ${one.version} · ${one.status}`),
      h("pre", {}, one.content),
      h("h3", {}, "Ratings"), chart(ratings),
      h("h3", {}, "History"), h("ul", {}, ...versions.toReversed().map(version))));
    title.focus();
  }

  function version(one) {
    const lines = one.diff ? one.diff.split("\n") : [one.content];
    return h("li", {}, h("p", {}, `Version ${one.version} · ${one.at} · ${one.who || "unknown"} · ${one.why}`),
      h("pre", {}, ...lines.map((line) => {
        const kind = one.diff && line[0] === "+" ? "add" : one.diff && line[0] === "-" ? "gone" : undefined;
        return h("span", { class: kind }, `${line}\n`);
      })));
  }

  function chart(ratings) {
    const said = ratings.map((one) => `${one.score} (${one.at})`).join(", ");
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 100 24");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `Ratings: ${said}`);
    const line = document.createElementNS(SVG, "polyline");
    const step = 96 / Math.max(1, ratings.length - 1);
    const points = ratings.map((one, at) => `${2 + at * step},${23 - one.score * 4}`);
    line.setAttribute("points", [...points, ...(points.length === 1 ? [`98,${23 - ratings[0].score * 4}`] : [])].join(" "));
    line.setAttribute("fill", "none");
    line.setAttribute("stroke", "currentColor");
    svg.append(line);
    return h("figure", {}, svg, h("figcaption", {}, said));
  }

  async function plan() {
    const answer = await get("/slim", { method: "POST", body: JSON.stringify({ dry_run: true }) });
    const merges = answer.plan.merges;
    const boxes = merges.map((one) => h("input", { type: "checkbox", checked: "", value: one.keep }));
    const items = merges.map((one, at) => h("li", {}, h("label", {}, boxes[at],
      ` ${one.merged.length + 1} entries into ${one.keep} (${Math.round(one.similarity * 100)} % alike): ${one.scenario}`)));
    const apply = h("button", { type: "button", onclick: () => run(applied, answer.plan, boxes) }, "Merge what is ticked");
    place.replaceChildren(h("ul", { "aria-label": "Merges" }, ...items), ...(merges.length ? [apply] : []));
    return merges.length ? `${merges.length} merges proposed; nothing was changed` : "Nothing to merge";
  }

  async function applied(proposed, boxes) {
    const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
    const answer = await get("/slim", { method: "POST", body: JSON.stringify({ plan: proposed, chosen }) });
    place.replaceChildren();
    return `${answer.applied.applied.length} merged, ${answer.applied.skipped.length} left alone; ${answer.applied.after} entries`;
  }

  return run(list);
}
