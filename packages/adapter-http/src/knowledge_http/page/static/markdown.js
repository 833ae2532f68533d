// A small part of markdown as elements. Whatever is shown is a slice of the source, so that cited bytes can be marked
// exactly; what is not understood, and all HTML, is shown as the text that it is.

import { h } from "./dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const HEADING = /^ {0,3}#{1,6}[ \t]+/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])[ \t]+/;
const QUOTE = /^ {0,3}> ?/;
const RULE = /^ {0,3}([-*_])[ \t]*(\1[ \t]*){2,}$/;
const ROW = /^\s*\|.*\|\s*$/;
const ROW_RULE = /^[\s:|-]*-[\s:|-]*$/;
const UNDERLINE = /^ {0,3}(=+|-+)[ \t]*$/;
const INLINE = /(`+)|(\*\*|__)(?=\S)|([*_])(?=\S)/g;
const MOST_INLINE = 20_000;

/**
 * A document as elements.
 *
 * @param text the source
 * @param options `marks`: [start, end] of what is cited; `links`: {start, end, kind, label, href, outside} in order;
 *   `anchors`: from where a heading begins to the id that it gets. All count characters of `text`.
 */
export function render(text, { marks = [], links = [], anchors = new Map(), isMarkdown = true } = {}) {
  const writer = new Writer(text, marks, links, anchors);
  const out = h("div", { class: "document" });
  if (isMarkdown) writer.blocks(out);
  else out.append(filled(h("pre", { tabindex: 0 }), (element) => writer.slice(element, 0, text.length)));
  for (const each of out.children) each.dir = "auto";
  return out;
}

function filled(element, fill) {
  fill(element);
  return element;
}

/** How long a heading is without the `##` that may close it. Backwards, as an expression would try each place. */
function withoutClosing(text) {
  const end = text.trimEnd().length;
  let to = end;
  while (to > 0 && text[to - 1] === "#") to -= 1;
  return to < end && (to === 0 || /\s/.test(text[to - 1])) ? text.slice(0, to).trimEnd().length : end;
}

class Writer {
  constructor(text, marks, links, anchors) {
    Object.assign(this, { text, marks, links, anchors });
  }

  /** Source text as it is, with what is cited marked. */
  slice(parent, start, end) {
    let from = start;
    for (const [first, last] of this.marks) {
      const [a, b] = [Math.max(first, from), Math.min(last, end)];
      if (a >= b) continue;
      if (a > from) parent.append(this.text.slice(from, a));
      parent.append(h("mark", { class: "cited" }, this.text.slice(a, b)));
      from = b;
    }
    if (from < end) parent.append(this.text.slice(from, end));
  }

  lines() {
    const out = [];
    let start = 0;
    while (start < this.text.length) {
      let end = this.text.indexOf("\n", start);
      if (end < 0) end = this.text.length;
      const stop = this.text[end - 1] === "\r" && end > start ? end - 1 : end;
      out.push({ start, end: stop, next: end + 1, text: this.text.slice(start, stop) });
      start = end + 1;
    }
    return out;
  }

  blocks(out) {
    const lines = this.lines();
    let at = this.frontmatter(out, lines);
    while (at < lines.length) at = this.block(out, lines, at);
  }

  frontmatter(out, lines) {
    if (!lines.length || !/^\ufeff?---[ \t]*$/.test(lines[0].text)) return 0;
    const end = lines.findIndex((line, at) => at > 0 && /^(---|\.\.\.)[ \t]*$/.test(line.text));
    if (end < 0) return 0;
    const [start, stop] = [lines[0].start, lines[end].end];
    const isCited = this.marks.some(([first, last]) => first < stop && last > start);
    out.append(h("details", { open: isCited }, h("summary", {}, "Frontmatter"),
      filled(h("pre", { tabindex: 0 }), (element) => this.slice(element, start, stop))));
    return end + 1;
  }

  /** One block, from line `at`; the line behind it. */
  block(out, lines, at) {
    const line = lines[at];
    const blank = !line.text.trim();
    if (blank) return at + 1;
    const fence = FENCE.exec(line.text);
    if (fence) return this.fence(out, lines, at, fence[1]);
    const heading = HEADING.exec(line.text);
    if (heading) return this.heading(out, line, heading, at);
    if (RULE.test(line.text)) return out.append(h("hr")), at + 1;
    if (/^( {4}|\t)/.test(line.text)) return this.run(out, lines, at, "pre", (each) => /^( {4}|\t)/.test(each.text));
    if (ITEM.test(line.text)) return this.items(out, lines, at);
    if (QUOTE.test(line.text)) return this.quote(out, lines, at);
    if (ROW.test(line.text) && lines[at + 1] && ROW_RULE.test(lines[at + 1].text)) return this.table(out, lines, at);
    return this.paragraph(out, lines, at);
  }

  titled(out, level, line, start, end) {
    const id = this.anchors.get(line.start);
    out.append(filled(h(`h${Math.min(6, level + 1)}`, { id, tabindex: id ? -1 : null }),
      (element) => this.inline(element, start, end)));
  }

  heading(out, line, found, at) {
    const start = line.start + found[0].length;
    this.titled(out, found[0].trim().length, line, start, start + withoutClosing(line.text.slice(found[0].length)));
    return at + 1;
  }

  fence(out, lines, at, mark) {
    let end = at + 1;
    const closing = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}[ \\t]*$`);
    while (end < lines.length && !closing.test(lines[end].text)) end += 1;
    if (end > at + 1) {
      out.append(h("pre", { tabindex: 0 }, filled(h("code"),
        (element) => this.slice(element, lines[at + 1].start, lines[end - 1].end))));
    }
    return end + 1;
  }

  run(out, lines, at, name, belongs) {
    let end = at + 1;
    while (end < lines.length && belongs(lines[end])) end += 1;
    out.append(filled(h(name, { tabindex: name === "pre" ? 0 : null }),
      (element) => this.slice(element, lines[at].start, lines[end - 1].end)));
    return end;
  }

  items(out, lines, at) {
    const ordered = /\d/.test(ITEM.exec(lines[at].text)[2]);
    const list = h(ordered ? "ol" : "ul", { start: ordered ? parseInt(ITEM.exec(lines[at].text)[2], 10) : null });
    let item = null;
    while (at < lines.length && lines[at].text.trim() && !HEADING.test(lines[at].text) && !FENCE.test(lines[at].text)) {
      const found = ITEM.exec(lines[at].text);
      if (found) {
        const depth = Math.min(6, Math.floor(found[1].length / 2));
        item = h("li", { class: depth ? `depth-${depth}` : null });
        list.append(item);
        this.inline(item, lines[at].start + found[0].length, lines[at].end);
      } else {
        item.append(" ");
        this.inline(item, lines[at].start, lines[at].end);
      }
      at += 1;
    }
    out.append(list);
    return at;
  }

  quote(out, lines, at) {
    const quote = h("blockquote");
    while (at < lines.length && QUOTE.test(lines[at].text)) {
      const start = lines[at].start + QUOTE.exec(lines[at].text)[0].length;
      quote.append(filled(h("p"), (element) => this.inline(element, start, lines[at].end)));
      at += 1;
    }
    out.append(quote);
    return at;
  }

  table(out, lines, at) {
    const head = h("thead", {}, this.row(lines[at], "th"));
    const body = h("tbody");
    for (at += 2; at < lines.length && ROW.test(lines[at].text); at += 1) body.append(this.row(lines[at], "td"));
    out.append(h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" }, h("table", {}, head, body)));
    return at;
  }

  row(line, name) {
    const out = h("tr");
    const stop = line.start + line.text.trimEnd().length - 1;
    let from = this.text.indexOf("|", line.start) + 1;
    for (let at = from; at <= stop; at += 1) {
      if (this.text[at] !== "|" || this.text[at - 1] === "\\") continue;
      out.append(filled(h(name, { scope: name === "th" ? "col" : null }), (cell) => this.inline(cell, from, at)));
      from = at + 1;
    }
    return out;
  }

  paragraph(out, lines, at) {
    let end = at + 1;
    while (end < lines.length && lines[end].text.trim() && !this.interrupts(lines[end].text)) {
      const under = UNDERLINE.exec(lines[end].text);
      if (under) {
        this.titled(out, under[1][0] === "=" ? 1 : 2, lines[at], lines[at].start, lines[end - 1].end);
        return end + 1;
      }
      end += 1;
    }
    out.append(filled(h("p"), (element) => this.inline(element, lines[at].start, lines[end - 1].end)));
    return end;
  }

  interrupts(text) {
    return HEADING.test(text) || FENCE.test(text) || QUOTE.test(text) || (ITEM.test(text) && !/^\s*\d/.test(text));
  }

  /** Links where the server found them, and between them code and emphasis. */
  inline(parent, start, end) {
    let from = start;
    for (let at = this.firstLink(start); at < this.links.length && this.links[at].start < end; at += 1) {
      const link = this.links[at];
      if (link.start < from || link.end > end) continue;
      this.emphasis(parent, from, link.start);
      const attributes = link.outside ? { rel: "noopener noreferrer nofollow", target: "_blank" } : {};
      const element = link.href ? h("a", { href: link.href, ...attributes }) : h("span", { class: "dead" });
      this.slice(element, link.start + link.label[0], link.start + link.label[1]);
      parent.append(element);
      from = link.end;
    }
    this.emphasis(parent, from, end);
  }

  firstLink(start) {
    let [low, high] = [0, this.links.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.links[middle].start < start) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  emphasis(parent, start, end) {
    const text = this.text.slice(start, end);
    const missing = new Set();
    let from = 0;
    // What is very long is no prose, and looking for pairs in it takes long.
    const found = text.length > MOST_INLINE ? [] : text.matchAll(INLINE);
    for (const open of found) {
      if (open.index < from) continue;
      const mark = open[0];
      const inside = open.index + mark.length;
      if (mark[0] === "_" && /\w/.test(text[open.index - 1] || "")) continue;
      if (missing.has(mark)) continue;
      const close = text.indexOf(mark, inside + 1);
      if (close < 0) missing.add(mark);
      if (close < 0 || (mark[0] !== "`" && /\s/.test(text[close - 1]))) continue;
      this.slice(parent, start + from, start + open.index);
      const element = h(mark[0] === "`" ? "code" : mark.length === 2 ? "strong" : "em");
      this.slice(element, start + inside, start + close);
      parent.append(element);
      from = close + mark.length;
    }
    this.slice(parent, start + from, end);
  }
}
