// The links between documents: those of one document and of its neighbours, on rings around it.

import * as api from "./api.js";
import { count, h, plain, show, svg } from "./dom.js";
import { asFilter, docLink, link } from "./state.js";

const MOST_NODES = 40;
const MOST_NEAR = 16;
const AT_ONCE = 6;
const SIZE = 800;
const RINGS = [0, 190, 340];

export function graphView({ say, fail }) {
  const element = h("div", { class: "graph" });
  let running = null;

  async function update(state) {
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    element.setAttribute("aria-busy", "true");
    try {
      const found = state.doc ? await around(state.doc, signal) : await among(state, signal);
      if (signal.aborted) return;
      draw(state, found);
      fail("");
      say(`${count(found.nodes.length, "document")} and ${count(found.edges.length, "link")} between them.`);
      element.querySelector(".node")?.focus();
    } catch (error) {
      if (error.name !== "AbortError") fail(error.message);
    } finally {
      if (!signal.aborted) element.removeAttribute("aria-busy");
    }
  }

  return { element, update };

  function draw(state, { nodes, edges, cut }) {
    const places = new Map(nodes.map((node) => [node.id, node]));
    place(nodes);
    const lines = edges.map(([from, to]) => {
      const [a, b] = [places.get(from), places.get(to)];
      return svg("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, "marker-end": "url(#arrow)" });
    });
    const points = nodes.map((node) => {
      const out = edges.filter(([from]) => from === node.id).length;
      const name = plain(node.title);
      return svg("a", { class: `node ring-${node.ring}`, href: docLink(state, node.id), "data-id": node.id,
        "aria-label": `${name}, leads to ${out} of these` },
        svg("circle", { cx: node.x, cy: node.y, r: node.ring ? 9 : 14 }),
        svg("text", { x: node.x, y: node.y + 26, "text-anchor": "middle" }, name.length > 22 ? `${name.slice(0, 21)}…` : name));
    });
    const picture = svg("svg", { viewBox: frame(nodes), role: "group", "aria-label": "Documents and the links between them" },
      svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 10 10", refX: 20, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
        svg("path", { d: "M0 0 10 5 0 10z" }))),
      lines, points);
    picture.addEventListener("keydown", (event) => walk(event, nodes));
    show(element,
      h("h1", {}, state.doc ? plain(`Links around ${nodes[0].title}`) : "Links between documents"),
      h("p", {}, "Arrow keys go from document to document, Enter opens one, Space puts it in the middle.",
        cut ? " Not all fit: what is farther away is left out." : ""),
      h("div", { class: "picture" }, picture),
      h("details", {}, h("summary", {}, "The same as a list"),
        edges.length ? h("ul", { id: "edges" }, edges.map(([from, to]) => h("li", {},
          h("a", { href: docLink(state, from) }, plain(places.get(from).title)), " leads to ",
          h("a", { href: docLink(state, to) }, plain(places.get(to).title))))) : h("p", {}, "There are no links.")));

    function walk(event, all) {
      const current = event.target.closest?.(".node");
      if (!current) return;
      const node = places.get(current.dataset.id);
      if (event.key === " ") {
        event.preventDefault();
        location.hash = link({ ...state, view: "graph", doc: node.id });
        return;
      }
      const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
      if (!way) return;
      event.preventDefault();
      const next = nearest(node, all, way);
      if (next) element.querySelector(`[data-id="${CSS.escape(next.id)}"]`).focus();
    }
  }

  /** As much as there is, and no less than would make few look huge. */
  function frame(nodes) {
    const [xs, ys] = [nodes.map((node) => node.x), nodes.map((node) => node.y)];
    const [left, top] = [Math.min(...xs, 200) - 90, Math.min(...ys, 250) - 30];
    return `${left} ${top} ${Math.max(...xs, 600) + 90 - left} ${Math.max(...ys, 550) + 50 - top}`;
  }

  /** The one that lies that way, by how far and how far off it is. */
  function nearest(node, all, [dx, dy]) {
    let best = null;
    for (const each of all) {
      const along = (each.x - node.x) * dx + (each.y - node.y) * dy;
      const aside = Math.abs((each.x - node.x) * dy) + Math.abs((each.y - node.y) * dx);
      if (along > 1 && (!best || along + 2 * aside < best.far)) best = { node: each, far: along + 2 * aside };
    }
    return best?.node;
  }

  function place(nodes) {
    const middle = SIZE / 2;
    for (const [ring, radius] of RINGS.entries()) {
      const here = nodes.filter((node) => node.ring === ring);
      here.forEach((node, at) => {
        const angle = (2 * Math.PI * at) / here.length - Math.PI / 2 + ring * 0.2;
        node.x = Math.round(middle + radius * Math.cos(angle));
        node.y = Math.round(middle + radius * Math.sin(angle));
      });
    }
  }

  async function around(id, signal) {
    const centre = await api.source(id, signal);
    const near = targets(centre).slice(0, MOST_NEAR);
    const details = await all(near, signal);
    const titles = new Map([[centre.source.id, [centre, 0]], ...details.map((each) => [each.source.id, [each, 1]])]);
    let isCut = targets(centre).length > near.length;
    const far = [...new Set(details.flatMap(targets))].filter((each) => !titles.has(each));
    const outer = far.slice(0, Math.max(0, MOST_NODES - titles.size));
    isCut ||= far.length > outer.length;
    for (const each of await all(outer, signal)) titles.set(each.source.id, [each, 2]);
    return graph(titles, isCut);
  }

  /** Without a document to begin with: the first of those that the filters leave. */
  async function among(state, signal) {
    const page = await api.list({ filter: asFilter(state.filter), limit: MOST_NODES, query: state.q.trim() || null }, signal);
    const details = await all(page.sources.map((each) => each.id), signal);
    return graph(new Map(details.map((each, at) => [each.source.id, [each, at < 12 ? 1 : 2]])), page.next_cursor !== null);
  }

  function targets(detail) {
    return [...new Set(detail.links.map((each) => each.source_id))].filter((id) => id !== null && id !== detail.source.id);
  }

  function graph(found, cut) {
    const nodes = [...found.values()].map(([{ source }, ring]) => ({ id: source.id, title: source.title || source.id, ring }));
    const edges = [...found.values()].flatMap(([detail]) =>
      targets(detail).filter((id) => found.has(id)).map((id) => [detail.source.id, id]));
    return { nodes, edges, cut };
  }

  async function all(ids, signal) {
    const out = [];
    for (let at = 0; at < ids.length; at += AT_ONCE) {
      const some = await Promise.allSettled(ids.slice(at, at + AT_ONCE).map((id) => api.source(id, signal)));
      // One that went away meanwhile is left out.
      out.push(...some.filter((each) => each.status === "fulfilled").map((each) => each.value));
    }
    return out;
  }
}
