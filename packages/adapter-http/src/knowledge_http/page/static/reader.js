// A document: its text with the cited span marked, the outline, its links and its frontmatter.

import * as api from "./api.js";
import { count, h, plain, show, table } from "./dom.js";
import { render } from "./markdown.js";
import { located } from "./spans.js";
import { docLink, link } from "./state.js";

/** Of longer documents so many bytes are shown at once. */
const WINDOW = 100_000;
const BEFORE = 10_000;
const VERDICTS = {
  ok: "The cited words are still there.",
  moved: "The cited words have moved in the document; this is where they are now.",
  changed: "The cited words are not in the document any more. What is marked now stands in their place.",
  gone: "The cited document is gone.",
};

export function readerView({ say, fail }) {
  const element = h("div", { class: "reader" });
  let running = null;
  let shown = "";

  async function update(state) {
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    const key = JSON.stringify([state.doc, state.span, state.hash, state.backend]);
    if (key === shown && state.at) return jump(state);
    element.setAttribute("aria-busy", "true");
    try {
      const place = await cited(state);
      const detail = await api.source(state.doc, signal);
      const part = windowOf(detail, place.span, state);
      const content = await api.content(state.doc, part, signal);
      if (signal.aborted) return undefined;
      draw(state, detail, content, part, place);
      shown = key;
      fail("");
      jump(state);
      say(saidOf(detail, place, content));
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return undefined;
      shown = "";
      const isGone = error.code === "not-found";
      show(element, h("h1", { tabindex: -1 }, isGone ? "No such document" : "The document cannot be shown"),
        h("p", {}, isGone && state.hash ? VERDICTS.gone : plain(error.message)),
        h("p", {}, h("a", { href: back(state) }, "Back to the results")));
      element.querySelector("h1").focus();
      fail(error.message);
    } finally {
      if (!signal.aborted) element.removeAttribute("aria-busy");
    }
    return undefined;
  }

  return { element, update };

  function saidOf(detail, place, content) {
    const away = detail.away || content.away ? " The server is away: this was read earlier." : "";
    return `${detail.source.title || detail.source.id}. ${place.verdict ? VERDICTS[place.verdict] : ""}${away}`;
  }

  /** Where the cited bytes are now. */
  async function cited(state) {
    if (!state.span || !/^[0-9a-f]{64}$/.test(state.hash)) return { span: state.span, verdict: "" };
    try {
      const found = await api.verify({ source_id: state.doc, span: state.span, content_hash: state.hash });
      return { span: found.span ?? state.span, verdict: found.status };
    } catch (error) {
      // What was read before can be shown without it.
      if (error.code === "unreachable") return { span: state.span, verdict: "" };
      throw error;
    }
  }

  function windowOf(detail, span, state) {
    if (detail.source.bytes <= WINDOW) return null;
    const entry = detail.outline.find((each) => each.slug === state.at);
    const start = Math.max(0, (span ?? entry?.span ?? { start: 0 }).start - BEFORE);
    return { start, end: Math.min(detail.source.bytes, start + WINDOW) };
  }

  function draw(state, detail, content, part, place) {
    const offset = part?.start ?? 0;
    const size = content.bytes.length;
    const inside = (span) => span.start >= offset && span.end <= offset + size;
    const links = detail.links.filter((each) => inside(each.span) && each.span.end > each.span.start);
    const offsets = [...links.flatMap((each) => [each.span.start, each.span.end]), ...detail.outline.map((each) => each.span.start)];
    if (place.span) offsets.push(place.span.start, place.span.end);
    const { text, at } = located(content.bytes, offsets.map((each) => each - offset));
    const where = (position) => at(position - offset);
    const body = render(text, {
      marks: place.span ? [[where(place.span.start), where(place.span.end)]] : [],
      links: links.map((each) => shownLink(state, each, text, where)).sort((a, b) => a.start - b.start),
      anchors: new Map(detail.outline.filter((each) => each.slug && each.span.start >= offset)
        .map((each) => [where(each.span.start), `section-${each.slug}`])),
      isMarkdown: !/\.(txt|ya?ml|json)$/i.test(detail.source.id),
    });
    show(element,
      h("nav", { class: "outline", "aria-label": "Outline" }, outline(state, detail)),
      h("article", { "aria-label": plain(detail.source.title || detail.source.id) },
        h("p", { class: "crumbs" }, h("a", { href: back(state), id: "back" }, "Back to the results"), " ",
          h("a", { href: link({ ...state, view: "graph", span: null, hash: "", at: "" }) }, "Links as a graph")),
        h("h1", { tabindex: -1 }, plain(detail.source.title || detail.source.id)),
        h("p", { class: "about" }, plain(`${detail.source.id}, ${detail.source.bytes.toLocaleString()} bytes`)),
        place.verdict ? h("p", { class: `verdict ${place.verdict}` }, VERDICTS[place.verdict]) : null,
        detail.issues.length ? h("ul", { class: "issues" }, detail.issues.map((each) =>
          h("li", {}, plain(`${each.severity}, line ${each.line}: ${each.message}. ${each.mend}`)))) : null,
        part ? turning(state, detail, part) : null,
        body,
        part ? turning(state, detail, part) : null),
      h("aside", { class: "facts", "aria-label": "About the document" }, facts(state, detail)));
  }

  function turning(state, detail, part) {
    const to = (start) => docLink(state, state.doc, { span: { start, end: start } });
    return h("p", { class: "turning" }, `Bytes ${part.start.toLocaleString()} to ${part.end.toLocaleString()}. `,
      part.start ? h("a", { href: to(Math.max(0, part.start - WINDOW + BEFORE)) }, "Earlier") : null, " ",
      part.end < detail.source.bytes ? h("a", { href: to(part.end) }, "Later") : null);
  }

  function shownLink(state, each, text, where) {
    const [start, end] = [where(each.span.start), where(each.span.end)];
    const outside = /^https?:\/\//i.test(each.target);
    const slug = each.target.includes("#") ? each.target.slice(each.target.indexOf("#") + 1) : "";
    const href = each.source_id !== null ? docLink(state, each.source_id, { at: slug }) : outside ? each.target : null;
    return { start, end, label: label(text.slice(start, end), each.kind), href, outside: outside && each.source_id === null };
  }

  /** Where in the source of a link its words are. */
  function label(source, kind) {
    const from = source.startsWith("!") ? 1 : 0;
    if (kind === "wiki" && source.startsWith("[[", from) && source.endsWith("]]")) {
      const bar = source.indexOf("|");
      return [bar < 0 ? from + 2 : bar + 1, source.length - 2];
    }
    const close = source.lastIndexOf("](") < 0 ? source.indexOf("]") : source.lastIndexOf("](");
    if (source[from] === "[" && close > from + 1) return [from + 1, close];
    return source[0] === "<" && source.endsWith(">") ? [1, source.length - 1] : [0, source.length];
  }

  function outline(state, detail) {
    const entries = detail.outline.filter((each) => each.level);
    return h("details", { open: window.innerWidth > 700 || null }, h("summary", {}, "Outline"),
      entries.length ? h("ul", {}, entries.slice(0, 2000).map((each) => h("li", { class: `depth-${Math.min(6, each.level - 1)}` },
        h("a", { href: link({ ...state, view: "doc", at: each.slug }) }, plain(each.title) || "(no title)"))))
        : h("p", {}, "There are no headings."));
  }

  function facts(state, detail) {
    const metadata = Object.entries(detail.source.metadata);
    const seen = new Set();
    const to = detail.links.filter((each) => each.source_id !== null && each.source_id !== detail.source.id && !seen.has(each.source_id) && seen.add(each.source_id));
    const dead = detail.links.filter((each) => each.source_id === null && !/^[a-z][a-z0-9+.-]*:|^\/\//i.test(each.target));
    return [
      h("h2", {}, "Frontmatter"),
      metadata.length ? table("What the document says of itself", ["Key", "Value"], metadata.map(([key, value]) =>
        h("tr", {}, h("th", { scope: "row" }, plain(key)), h("td", {}, plain(typeof value === "string" ? value : JSON.stringify(value))))))
        : h("p", {}, "There is none."),
      h("h2", {}, "Leads to"),
      to.length ? h("ul", { id: "leads-to" }, to.slice(0, 200).map((each) => h("li", {}, h("a", { href: docLink(state, each.source_id) }, plain(each.source_id)))))
        : h("p", {}, "No link leads to another document here."),
      dead.length ? h("p", {}, `${count(dead.length, "link leads", "links lead")} nowhere: ${dead.slice(0, 20).map((each) => plain(each.target)).join(", ")}`) : null,
    ];
  }

  function back(state) {
    return link({ view: "search", q: state.q, filter: state.filter, backend: state.backend });
  }

  /** To the section or the cited words; else to the title. */
  function jump(state) {
    const heading = state.at ? document.getElementById(`section-${state.at.toLowerCase()}`) : null;
    const mark = element.querySelector("mark.cited");
    const target = heading ?? mark ?? element.querySelector("h1");
    mark?.setAttribute("tabindex", "-1");
    mark?.closest("details")?.setAttribute("open", "");
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: target.tagName === "H1" ? "start" : "center" });
  }
}
