// What is indexed, what is not, and why.

import * as api from "./api.js";
import { count, h, plain, show, table } from "./dom.js";
import { docLink } from "./state.js";

const PAGE = 100;

export function indexView({ say, fail }) {
  const element = h("div", { class: "index" });

  async function update(state) {
    element.setAttribute("aria-busy", "true");
    try {
      const [status, first] = await Promise.all([api.status(), api.list({ limit: PAGE })]);
      draw(state, status, first);
      fail("");
      say(`${count(first.total, "document")} indexed, ${status.skipped.length.toLocaleString()} left out, ${count(status.issues.length, "remark")} on documents.`);
    } catch (error) {
      fail(error.message);
    } finally {
      element.removeAttribute("aria-busy");
    }
  }

  return { element, update };

  function draw(state, status, first) {
    const { index } = status;
    show(element,
      h("h1", { tabindex: -1 }, "What is indexed"),
      h("dl", { class: "numbers" }, numbers({
        "Backend": status.backends.length > 1 ? `${status.backend} (${status.backends.join(", ")})` : status.backend,
        "State": `${status.status}${status.message ? `: ${status.message}` : ""}, the index is ${index.state}`,
        "Documents": index.documents.toLocaleString(),
        "Left out": index.skipped.toLocaleString(),
        "Revision": index.revision || "not known yet",
      })),
      h("h2", {}, "Left out"),
      status.skipped.length
        ? paged("What was found and is not indexed", ["Path", "Why", "More"], status.skipped, (each) =>
          h("tr", {}, h("th", { scope: "row" }, plain(each.path)), h("td", {}, plain(each.reason)), h("td", {}, plain(each.message))))
        : h("p", {}, "Nothing: all that was found is indexed."),
      h("h2", {}, "Remarks on documents"),
      issues(state, status.issues),
      h("h2", {}, "Indexed"),
      documents(state, first));
  }

  function numbers(given) {
    return Object.entries(given).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, plain(value))));
  }

  function issues(state, all) {
    if (!all.length) return h("p", {}, "None.");
    const out = h("div", { id: "remarks" });
    const kinds = ["error", "warning", "info"].filter((kind) => all.some((each) => each.severity === kind));
    const choice = h("select", { id: "severity" }, h("option", { value: "" }, `All (${all.length.toLocaleString()})`),
      kinds.map((kind) => h("option", { value: kind }, `${kind} (${all.filter((each) => each.severity === kind).length.toLocaleString()})`)));
    const draw = () => show(out, paged("What is wrong with documents", ["Document", "Line", "What", "What to do"],
      all.filter((each) => !choice.value || each.severity === choice.value), (each) => h("tr", { class: each.severity },
        h("th", { scope: "row" }, h("a", { href: docLink(state, each.path) }, plain(each.path))),
        h("td", {}, each.line ? String(each.line) : ""),
        h("td", {}, plain(`${each.severity}: ${each.message}`)), h("td", {}, plain(each.mend)))));
    choice.addEventListener("change", draw);
    draw();
    return h("div", {}, h("label", { for: "severity" }, "Show"), " ", choice, out);
  }

  /** A table that grows by a page at a time. */
  function paged(caption, heads, items, row) {
    const frame = table(caption, heads, items.slice(0, PAGE).map(row));
    const body = frame.querySelector("tbody");
    const more = h("button", { type: "button", hidden: items.length <= PAGE, onclick: () => {
      body.append(...items.slice(body.children.length, body.children.length + PAGE).map(row));
      more.hidden = body.children.length >= items.length;
    } }, "More");
    return h("div", {}, frame, more);
  }

  function documents(state, first) {
    const row = (each) => h("tr", {},
      h("th", { scope: "row" }, h("a", { href: docLink(state, each.id) }, plain(each.id))),
      h("td", {}, plain(each.title)), h("td", {}, each.bytes.toLocaleString()),
      h("td", {}, plain(each.error ? `${each.status}: ${each.error}` : each.status)));
    const frame = table("Documents that are indexed", ["Id", "Title", "Bytes", "State"], first.sources.map(row));
    let cursor = first.next_cursor;
    const more = h("button", { type: "button", id: "more-documents", hidden: cursor === null, onclick: async () => {
      try {
        const page = await api.list({ limit: PAGE, cursor });
        frame.querySelector("tbody").append(...page.sources.map(row));
        cursor = page.next_cursor;
        more.hidden = cursor === null;
      } catch (error) {
        fail(error.message);
      }
    } }, "More");
    return h("div", {}, frame, more);
  }
}
