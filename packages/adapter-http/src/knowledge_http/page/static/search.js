// Search as one types: passages with what matches marked; without words, the documents. Facets narrow both.

import * as api from "./api.js";
import { count, h, plain, show } from "./dom.js";
import { pieces } from "./spans.js";
import { asFilter, docLink, link } from "./state.js";

const PAGE = 20;
const SHOWN_VALUES = 8;
/** Keys that mean something else in a filter. */
const NOT_KEYS = new Set(["and", "or", "not", "title"]);

/** The view: `update(state)` shows what it says. `go(state)` changes the address; `say` tells how it went. */
export function searchView({ go, say, fail }) {
  const facets = h("div", { id: "facets" });
  const chosen = h("ul", { id: "chosen", "aria-label": "Filters in use" });
  const results = h("ol", { id: "results", "aria-label": "Results" });
  const more = h("button", { type: "button", id: "more", hidden: true }, "More");
  const narrowing = h("details", { id: "narrow", open: window.innerWidth > 700 }, h("summary", {}, "Narrow by"), facets);
  const element = h("div", { class: "search" },
    h("aside", { "aria-label": "Facets" }, narrowing),
    h("section", { "aria-label": "Found" }, h("h1", { class: "hidden" }, "Search"), chosen, results, more));
  const open = new Map();
  const expanded = new Set();
  let state = null;
  let running = null;
  let base = null;
  let shownFacets = "";

  async function update(now, { quiet = false } = {}) {
    state = now;
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    element.setAttribute("aria-busy", "true");
    showChosen();
    const facetsKey = JSON.stringify([now.backend, now.filter]);
    const asked = [found(now, null, signal, quiet)];
    if (facetsKey !== shownFacets) asked.push(counted(now, signal).then(() => { shownFacets = facetsKey; }));
    try {
      await Promise.all(asked);
      fail("");
    } catch (error) {
      if (error.name !== "AbortError") fail(error.message);
    } finally {
      if (!signal.aborted) element.removeAttribute("aria-busy");
    }
  }

  async function found(now, cursor, signal, quiet) {
    const words = now.q.trim();
    const asked = words
      ? api.query({ query: now.q, top_k: PAGE, filter: asFilter(now.filter), cursor, wait_s: 1 }, signal)
      : api.list({ filter: asFilter(now.filter), limit: PAGE, cursor }, signal);
    const answer = await asked;
    const items = words ? answer.hits.map(hit) : answer.sources.map(source);
    const before = cursor ? results.children.length : 0;
    if (before) results.append(...items);
    else show(results, items);
    if (before) results.children[before]?.querySelector("a").focus();
    more.hidden = answer.next_cursor === null;
    more.onclick = () => found(now, answer.next_cursor, signal, false).catch((error) => fail(error.message));
    if (!quiet) say(words ? saidOfHits(answer) : saidOfList(answer));
    if (words && answer.index.state === "building") setTimeout(() => { if (!signal.aborted) update(now); }, 1000);
  }

  function saidOfHits(answer) {
    const shown = count(results.children.length, "passage");
    const notes = [...answer.warnings];
    if (answer.index.state !== "ready") notes.unshift(`The index is ${answer.index.state}: this is what is known so far.`);
    if (!answer.hits.length && !results.children.length) {
      return ["Nothing found. Try other or fewer words, or remove a filter.", ...notes].join(" ");
    }
    const among = `among ${count(answer.index.documents, "document")}, ${answer.took_ms.toFixed(1)} ms`;
    return [`${answer.next_cursor ? "The best " : ""}${shown} ${among}.`, ...notes].join(" ");
  }

  const saidOfList = (answer) =>
    [`${count(answer.total, "document")}. Type to search in them.`, ...answer.warnings].join(" ");

  function hit(each) {
    const href = docLink(state, each.source_id, { span: each.span, hash: each.content_hash });
    const where = each.heading_path.filter((part, at) => at > 0 || part !== each.title).join(" › ");
    return h("li", {},
      h("a", { class: "title", dir: "auto", href }, plain(each.title || each.source_id)),
      where ? h("span", { class: "where" }, plain(where)) : null,
      h("p", { class: "snippet", dir: "auto" }, pieces(each.snippet).map((piece) =>
        piece.marked ? h("mark", {}, plain(piece.text)) : plain(piece.text))),
      h("small", {}, plain(`${each.backend ? `${each.backend}: ` : ""}${each.source_id}, bytes ${each.span.start} to ${each.span.end}`)));
  }

  function source(each) {
    return h("li", {},
      h("a", { class: "title", dir: "auto", href: docLink(state, each.id) }, plain(each.title || each.id)),
      typeof each.metadata.summary === "string" ? h("p", { class: "snippet", dir: "auto" }, plain(each.metadata.summary).slice(0, 300)) : null,
      h("small", {}, plain(`${each.id}, ${each.bytes.toLocaleString()} bytes`)));
  }

  async function counted(now, signal) {
    if (base === null || base.backend !== now.backend) {
      base = { backend: now.backend, facets: (await api.list({ limit: 1, facets: true }, signal)).facets };
    }
    const filter = asFilter(now.filter);
    const narrowed = filter ? (await api.list({ limit: 1, facets: true, filter }, signal)).facets : base.facets;
    showFacets(now, narrowed);
  }

  function showFacets(now, narrowed) {
    const focused = document.activeElement?.closest("#facets") ? document.activeElement.dataset.choice : undefined;
    const used = new Set(now.filter.map(([key]) => key));
    const keys = Object.keys(base.facets).filter((key) => !NOT_KEYS.has(key) && isUseful(base.facets[key]));
    for (const key of used) if (!keys.includes(key)) keys.push(key);
    show(facets, keys.length ? keys.map((key, at) => facet(now, key, at, narrowed, used.has(key))) : h("p", {}, "No document has frontmatter to narrow by."));
    if (focused) facets.querySelector(`[data-choice="${CSS.escape(focused)}"]`)?.focus();
  }

  // A key whose values are all different tells documents apart; it does not group them.
  const isUseful = (facet) => Object.values(facet.values).some((number) => number > 1) || Object.keys(facet.values).length < 20;

  function facet(now, key, at, narrowed, isUsed) {
    const chosenValues = now.filter.filter(([name]) => name === key).map(([, value]) => value);
    // Values of a key that is chosen from are alternatives, so that all of them stay on offer.
    const counts = (isUsed ? base.facets : narrowed)[key]?.values ?? {};
    const values = [...new Set([...Object.keys(counts), ...chosenValues])];
    const shown = values.filter((value, place) => place < SHOWN_VALUES || expanded.has(key) || chosenValues.includes(value));
    const rest = values.length - shown.length;
    const boxes = shown.map((value) => h("li", {}, h("label", { class: "check" },
      h("input", { type: "checkbox", "data-choice": JSON.stringify([key, value]), checked: chosenValues.includes(value), onchange: () => toggle(key, value) }),
      h("span", {}, plain(value) || "(empty)"), " ",
      h("span", { class: "count" }, Object.hasOwn(counts, value) ? counts[value].toLocaleString() : ""))));
    return h("details", { open: open.get(key) ?? (isUsed || at < 4), ontoggle: (event) => open.set(key, event.target.open) },
      h("summary", {}, plain(key)),
      h("ul", {}, boxes),
      rest ? h("button", { type: "button", class: "quiet", onclick: (event) => {
        const list = event.target.closest("details");
        expanded.add(key);
        event.target.remove();
        list.replaceWith(facet(now, key, at, narrowed, isUsed));
        facets.querySelector(`[data-choice="${CSS.escape(JSON.stringify([key, values[SHOWN_VALUES]]))}"]`)?.focus();
      } },
        `${rest} more of ${key}`) : null);
  }

  function toggle(key, value) {
    const rest = state.filter.filter(([name, each]) => name !== key || each !== value);
    go({ ...state, filter: rest.length < state.filter.length ? rest : [...rest, [key, value]] });
  }

  function showChosen() {
    show(chosen, state.filter.map(([key, value]) => h("li", {},
      h("a", { href: link({ ...state, filter: state.filter.filter(([name, each]) => name !== key || each !== value) }) },
        h("span", { class: "hidden" }, "Remove the filter "), plain(`${key}: ${value}`), h("span", { "aria-hidden": "true" }, " ×")))));
  }

  /** Moves among the results by arrow keys; false where there is nowhere to go. */
  function move(by) {
    const links = [...results.querySelectorAll("a.title")];
    const at = links.indexOf(document.activeElement);
    const next = at < 0 ? (by > 0 ? 0 : -1) : at + by;
    if (next < 0 || next >= links.length) return false;
    links[next].focus();
    return true;
  }

  return { element, update, move, forget: () => { base = null; shownFacets = ""; } };
}
